#include "cli/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/model_data.h"
#include "cli/prepare_plan.h"
#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/ir/evaluation.h"
#include "runtime/training/checkpoint.h"
#include "verify/migration.h"

namespace hetsynth::cli {
namespace {

/// Samples that are made up have numbers; no training comes to this one.
constexpr int64_t first_made_up_sample = int64_t{1} << 40;

/// What the evaluation of a model that is trained is compiled from: the same file, settings and cluster, but for what
/// only training has (micro-batches, turns, pins, a plan). The model is not loaded again.
Compilation evaluation_of(const Compilation& training) {
  Compilation out;
  static_cast<CompilationInput&>(out) = training;
  out.model_options = {};
  out.model_options.file = training.model_options.file;
  std::map<std::string, std::string> settings = model_settings(training);
  settings.erase("micro_batches");
  settings.erase("turns");
  settings[evaluation_setting] = "1";
  for (const auto& [name, value] : settings) out.model_options.set.push_back(name + "=" + value);
  out.plan_file.clear();
  out.plan_json.clear();
  out.certificate_file.clear();
  out.stages.reset();
  out.pins = {};
  out.model = training.model;
  out.stages_done = out.model ? 1 : 0;
  return out;
}

}  // namespace

Validation::Validation(const RunOptions& options, Job* job)
    : options_(options), job_(job), compilation_(evaluation_of(options.compilation)) {
  run_pipeline(compilation_, "differentiate", {});
  DataOptions data;
  data.path = options.validation.data;
  data.seed = options.data.seed;
  if (data.path == "synthetic") data.seen_samples = first_made_up_sample;
  data_ = open_data(compilation_.reference, data);
  batches_ = batches_to_evaluate(compilation_.reference, *data_, options.validation.batches);
}

std::optional<ExitCode> Validation::prepare(const Executor& training, double quiet_seconds) {
  training_ = &training;
  const std::vector<int64_t> taken = training.arena_bytes();
  for (size_t rank = 0; rank < taken.size(); ++rank)
    compilation_.memory_taken[training.device_names()[rank]] = taken[rank];
  if (job_) {
    // Every process has a part of every step: the devices are those that training has.
    compilation_.keep_devices = true;
    for (const std::string& device : options_.compilation.left_out) compilation_.without.push_back(device);
  }
  if (const auto ended =
          prepare_plan(compilation_, {}, {.unverified = options_.unverified, .brief = "validation"}, job_))
    return ended;
  LaunchOptions launching = launch_options(compilation_, options_.data.seed, job_);
  launching.executor.threads.quiet_seconds = quiet_seconds;
  executor_ = launch(compilation_.reference, compilation_.plan.program, compilation_.cluster, launching);
  fmt::print("validation: {} of {}, {} samples\n", counted(batches_, "batch", "batches"), data_->description(),
             samples_of_batches(compilation_.reference, *data_, batches_));
  return std::nullopt;
}

Migration Validation::migration() const {
  const Compilation& now = options_.compilation;
  const SpmdProgram from = renumbered(now.plan.program, now.reference, compilation_.reference);
  Migration out = migration_between(compilation_.reference, from, compilation_.plan.program,
                                    ranks_that_were(training_->device_names(), executor_->device_names()),
                                    hosts_of(now.cluster), hosts_of(compilation_.cluster));
  const std::string flaw = flaw_of_migration(compilation_.reference, from, compilation_.plan.program, out);
  HETSYNTH_CHECK(flaw.empty(), "parameters get from training to validation: " + flaw);
  return out;
}

Evaluation Validation::run() {
  executor_->take_from(*training_, migration());
  return evaluate(*executor_, *data_, batches_);
}

double best_before(const RunOptions& options) {
  double best = std::numeric_limits<double>::infinity();
  if (options.resume.empty()) return best;
  std::vector<std::string> files = {options.resume};
  if (options.train.keep.best) files.push_back(best_checkpoint(options.train.checkpoint));
  for (const std::string& file : files) {
    try {
      best = std::min(best, read_checkpoint_info(file).validation_loss.value_or(best));
    } catch (const UserError&) {  // there is none as yet, or none that can be read
    }
  }
  return best;
}

}  // namespace hetsynth::cli
