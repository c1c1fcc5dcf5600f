#include "cli/prepare_plan.h"

#include <fmt/format.h>

#include <vector>

#include "dsl/ir/evaluation.h"
#include "pipeline/evaluation.h"
#include "pipeline/report.h"
#include "runtime/processes/placement.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cli {

ExitCode exit_code(Verdict verdict);  // verify_command.cpp

namespace {

/// "validation: 2 devices, 12.3 ms a batch predicted; proved".
std::string brief_text(const Compilation& c, const std::string& begin) {
  return fmt::format("{}: {} {}, {} a batch predicted; {}\n", begin, c.plan.devices.size(),
                     c.plan.devices.size() == 1 ? "device" : "devices", seconds_text(c.plan.prediction.step_seconds),
                     c.verification.summary);
}

/// Says what the proof says, and whether to go on.
bool proof_allows(const Compilation& c, const PreparePlanOptions& options) {
  const bool proved = c.verification.verdict == Verdict::proved;
  std::FILE* out = options.silent ? stderr : stdout;
  if (!proved || options.brief.empty()) fmt::print(out, "{}", verify_text(c));
  if (proved) return true;
  if (!options.unverified) {
    std::fflush(stdout);
    notice(
        "hetsynth: this plan is not proved to compute the model, so it is not run; --unverified runs it all the "
        "same\n");
    return false;
  }
  fmt::print(out, "WARNING: running a plan that is NOT PROVED (--unverified): the numbers below may be wrong\n");
  return true;
}

/// Holds the generated source against the plan. A text that differs is not run; one that has something the check does
/// not know is, with a word.
bool source_allows(Compilation& c, const PipelineOutput& pipeline, const PreparePlanOptions& options) {
  run_pipeline(c, c.verification.verdict == Verdict::proved ? "check" : "generate", pipeline);
  if (c.verification.verdict != Verdict::proved) return true;
  if (c.source_check.verdict == Verdict::refuted || (options.brief.empty() && !options.silent))
    fmt::print(options.silent ? stderr : stdout, "{}", source_check_text(c.source_check, c.reference));
  return c.source_check.verdict != Verdict::refuted || options.unverified;
}

/// Planning may take minutes: what can be said of the number of processes before is.
void check_number_of_processes(const Compilation& c, int processes) {
  const Cluster devices = given_cluster(c);
  check_processes(devices, processes);
  if (c.plan_file.empty() && (c.keep_devices || c.pins.need_all_devices())) place_ranks(devices, processes);
}

}  // namespace

void ask_for_evaluation(Compilation& compilation, const Job* job) {
  compilation.model_options.set.push_back(fmt::format("{}=1", evaluation_setting));
  if (job) compilation.default_devices = job->count(), compilation.keep_devices = true;
}

void plan_beside(Compilation& compilation, const Compilation& running, const Executor& executor, const Job* job) {
  leave_memory_to(executor, compilation);
  if (!job) return;
  compilation.keep_devices = true;
  for (const std::string& device : running.left_out) compilation.without.push_back(device);
}

std::optional<ExitCode> prepare_plan(Compilation& c, const PipelineOutput& pipeline, const PreparePlanOptions& options,
                                     Job* job) {
  if (job) check_number_of_processes(c, job->count());
  if (job && !job->leads()) {
    c.plan_json = job->exchange("").front();
    if (c.plan_json.empty()) return ExitCode::done;  // the first process says why
    run_pipeline(c, "synthesize", pipeline);
    return std::nullopt;
  }
  run_pipeline(c, "synthesize", pipeline);
  if (job) place_ranks(c.cluster, job->count());  // before the proof, which takes time too
  run_pipeline(c, "verify", pipeline);
  if (!options.silent)
    fmt::print("{}", options.brief.empty()
                         ? plan_text(c.plan, c.reference, c.left_out) + assumed_speeds_text(c.cluster, c.reference)
                         : brief_text(c, options.brief));
  const bool proved = proof_allows(c, options);
  const bool allowed = proved && source_allows(c, pipeline, options);
  if (job) job->exchange(allowed ? plan_to_json(c.plan, c.reference) : "");
  if (!proved) return exit_code(c.verification.verdict);
  if (!allowed) return exit_code(c.source_check.verdict);
  return std::nullopt;
}

LaunchOptions launch_options(const Compilation& c, uint64_t seed, Job* job) {
  LaunchOptions out{.executor = {.seed = seed}, .programs = c.programs.empty() ? nullptr : &c.programs};
  if (!job) return out;
  out.executor.job = job;
  out.executor.process_of = place_ranks(c.cluster, job->count());
  out.executor.threads.threads_of_rank = threads_of_ranks(c.cluster, *job, out.executor.process_of);
  return out;
}

}  // namespace hetsynth::cli
