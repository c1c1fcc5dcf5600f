#include "cli/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cli/evaluation_input.h"
#include "cli/model_data.h"
#include "cli/prepare_plan.h"
#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "runtime/training/checkpoint.h"
#include "verify/migration.h"

namespace hetsynth::cli {
namespace {

/// Samples that are made up have numbers; no training comes to this one.
constexpr int64_t first_made_up_sample = int64_t{1} << 40;

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
