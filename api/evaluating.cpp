#include "api/evaluating.h"

#include "api/source_ahead.h"
#include "dsl/base/error.h"
#include "pipeline/report.h"
#include "runtime/data/data_ahead.h"
#include "runtime/launch.h"

namespace hetsynth::api {
namespace {

EvaluationResult result_of(const Evaluation& found) {
  return {found.loss, found.batches, found.samples, found.seconds, {found.metrics.begin(), found.metrics.end()}};
}

}  // namespace

void require_right(Compilation& c, bool unverified) {
  c.check_work = usual_check_work;
  run_pipeline(c, "verify", {});
  const bool proved = c.verification.verdict == Verdict::proved;
  if (!proved && !unverified)
    throw UserError({.message = "this plan is not proved to compute the model, so it is not run",
                     .found = c.verification.summary,
                     .mend = "TrainingOptions::unverified runs it all the same",
                     .detail = verify_text(c)},
                    c.verification.verdict == Verdict::refuted ? ExitCode::refuted : ExitCode::unknown);
  run_pipeline(c, proved ? "check" : "generate", {});
  if (proved && !unverified && c.source_check.verdict == Verdict::refuted)
    throw UserError({.message = "the generated source does not do what the plan says, so it is not run",
                     .found = c.source_check.worst().summary,
                     .detail = source_check_text(c.source_check, c.reference)},
                    ExitCode::refuted);
}

Evaluating::Evaluating(const Compilation& training, const Executor& trained, bool unverified)
    : training_(training), trained_(trained), compilation_(evaluation_of(training)) {
  leave_memory_to(trained, compilation_);
  require_right(compilation_, unverified);
}

EvaluationResult Evaluating::run(const std::function<const BatchSource&(int64_t)>& data_of, int64_t batches) {
  if (!executor_)
    executor_ =
        launch(compilation_.reference, compilation_.plan.program, compilation_.cluster,
               {.executor = {.seed = trained_.seed(), .threads = {.quiet_seconds = quiet_seconds(compilation_.plan)}},
                .programs = &compilation_.programs,
                .parameters_follow = true});
  try {
    executor_->take_from(trained_, migration_to_evaluation(training_, trained_, compilation_, *executor_));
    return result_of(hetsynth::evaluate(*executor_, data_of, batches));
  } catch (...) {
    executor_.reset();
    throw;
  }
}

EvaluationResult Evaluating::over(const std::string& data, int64_t batches) {
  const std::unique_ptr<BatchSource> opened = open_data(compilation_.reference, {data, trained_.seed(), 0, 0});
  const int64_t count = batches_to_evaluate(compilation_.reference, *opened, batches);
  const DataAhead ahead(*opened, count - 1);
  return run([&](int64_t) -> const BatchSource& { return ahead; }, count);
}

EvaluationResult Evaluating::over(const SampleSource& source, int64_t batches) {
  if (batches < 1)
    throw UserError({.tag = "data",
                     .message = "a source does not say how many samples it has",
                     .expected = "how many batches to evaluate, 1 or more",
                     .found = std::to_string(batches)},
                    ExitCode::usage);
  const std::vector<StepInput> inputs = step_inputs(compilation_.reference);
  SourceAhead ahead(source, inputs, {}, batches - 1);
  return run([&](int64_t batch) -> const BatchSource& { return ahead.of_step(batch); }, batches);
}

}  // namespace hetsynth::api
