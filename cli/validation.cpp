#include "cli/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

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
/// only training has, pins and plans as well. The model is not loaded again.
Compilation evaluation_of(const Compilation& training) {
  Compilation out;
  static_cast<CompilationInput&>(out) = training;
  out.model_options = {};
  out.model_options.file = training.model_options.file;
  for (const auto& [name, value] : evaluation_settings(training)) out.model_options.set.push_back(name + "=" + value);
  out.plan_file.clear();
  out.plan_json.clear();
  out.certificate_file.clear();
  out.stages.reset();
  out.pins = {};
  out.model = training.model;
  out.stages_done = out.model ? 1 : 0;
  return out;
}

/// Opens the data of --valid. What is wrong with them is not to be mended at --data.
std::unique_ptr<BatchSource> open_validation_data(const Program& reference, const DataOptions& options) {
  try {
    return open_data(reference, options);
  } catch (const UserError& error) {
    Diagnostic told = error.diagnostic();
    const std::string other = "--data";
    for (size_t at = told.mend.find(other); at != std::string::npos; at = told.mend.find(other, at))
      told.mend.replace(at, other.size(), "--valid");
    throw UserError(std::move(told), error.code());
  }
}

}  // namespace

std::map<std::string, std::string> evaluation_settings(const Compilation& training) {
  std::map<std::string, std::string> settings = model_settings(training);
  for (const char* of_training : {"micro_batches", "turns", "gradient_norm", "freeze"}) settings.erase(of_training);
  settings[evaluation_setting] = "1";
  return settings;
}

Validation::Validation(const RunOptions& options, Job* job)
    : options_(options), job_(job), compilation_(evaluation_of(options.compilation)) {
  run_pipeline(compilation_, "differentiate", {});
  DataOptions data;
  data.path = options.validation.data;
  data.seed = options.data.seed;
  if (data.path == "synthetic") data.seen_samples = first_made_up_sample;
  data_ = open_validation_data(compilation_.reference, data);
  batches_ = batches_to_evaluate(compilation_.reference, *data_, options.validation.batches);
}

std::optional<ExitCode> Validation::prepare(const Executor& training, double quiet_seconds) {
  training_ = &training;
  plan_beside(compilation_, options_.compilation, training, job_);
  if (const auto ended =
          prepare_plan(compilation_, {}, {.unverified = options_.unverified, .brief = "validation"}, job_))
    return ended;
  LaunchOptions launching = launch_options(compilation_, options_.data.seed, job_);
  launching.executor.threads.quiet_seconds = quiet_seconds;
  launching.parameters_follow = true;
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
