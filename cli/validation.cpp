#include "cli/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/model_data.h"
#include "cli/prepare_plan.h"
#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "pipeline/evaluation.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth::cli {
namespace {

/// Samples that are made up have numbers; no training comes to this one.
constexpr int64_t first_made_up_sample = int64_t{1} << 40;

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

Evaluation Validation::run() {
  executor_->take_from(*training_, migration_to_evaluation(options_.compilation, *training_, compilation_, *executor_));
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
