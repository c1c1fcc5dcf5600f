// hetsynth explain: where a plan's time goes, what every collective is for, and why other plans lose.
#include <fmt/format.h>

#include <cmath>

#include "cli/explain.h"
#include "cli/pipeline_options.h"
#include "cli/step_at_length.h"
#include "dsl/base/output_file.h"
#include "dsl/spmd/loop_schedule.h"
#include "pipeline/pipeline.h"
#include "pipeline/report.h"

namespace hetsynth::cli {
namespace {

const OutputKind timeline_kind{"timeline of hetsynth",
                               begins_with("<!doctype html>", {"<meta name=\"generator\" content=\"hetsynth\">"})};

/// How long a step with a wrong schedule would take is no question.
void require_schedules(const Compilation& c) {
  for (const LoopSchedule& schedule : c.plan.program.schedules)
    if (const std::optional<ScheduleFlaw> flaw = flaw_of(c.reference, c.plan.program, schedule))
      throw UserError({.where = {c.plan_file},
                       .tag = "plan",
                       .message = flaw->text,
                       .mend = "ask `hetsynth verify` what is wrong with the plan"});
}

}  // namespace

Command add_explain(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOutput pipeline;
    std::string page, trace;
    bool all = false;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "explain", "Show where a plan's time goes, what every collective is for, and why other plans lose");
  add_model_options(*command, options->compilation.model_options);
  command->add_option("plan", options->compilation.plan_file, "Plan file, edited ones included")->required();
  command
      ->add_option("--cluster", options->compilation.cluster_file,
                   "Cluster file (TOML): the speeds the plan is priced with")
      ->required();
  command->add_option("--html", options->page, "Write the step's timeline, a row per device, as a page to look at")
      ->type_name("FILE");
  command
      ->add_option("--trace", options->trace,
                   "Write the same timeline as trace events (JSON), for Perfetto or chrome://tracing")
      ->type_name("FILE");
  command->add_flag("--all", options->all, "List every operator and collective, not only the dearest");
  command->add_flag("--json", options->json, "Report as JSON, every instruction with its seconds per device");
  add_pipeline_options(*command, options->pipeline);
  return [options]() {
    Compilation& c = options->compilation;
    const std::vector<std::string> inputs = {c.model_options.file, c.plan_file, c.cluster_file};
    if (!options->page.empty()) check_output(options->page, timeline_kind, inputs);
    if (!options->trace.empty()) check_output(options->trace, trace_kind, inputs);
    run_pipeline(c, "synthesize", options->pipeline);
    require_schedules(c);
    Explanation explanation{c.plan,
                            c.reference,
                            price_instructions(c.reference, c.plan.program, c.cluster),
                            alternatives(c.plan, c.reference, load_cluster(c.cluster_file)),
                            {},
                            {},
                            memory_at_peak(c.reference, c.plan.program, c.cluster),
                            on_one_ring(c.plan, c.reference, c.cluster)};
    const StepAtLength step(c.plan, c.reference, c.cluster, explanation.prices);
    explanation.timeline = step.timeline();
    explanation.hidden = step.hidden();
    if (!options->page.empty()) write_output(options->page, timeline_kind, step.page());
    if (!options->trace.empty()) write_output(options->trace, trace_kind, step.trace());
    if (options->json)
      fmt::print("{}", explanation_json(explanation));
    else
      fmt::print("{}{}", plan_text(c.plan, c.reference, c.left_out),
                 explanation_text(explanation, options->all ? 0 : 12));
    const double priced = explanation.timeline.seconds, predicted = c.plan.prediction.step_seconds;
    if (!options->json && std::abs(priced - predicted) > 1e-3 * predicted)
      fmt::print("note: the plan file predicts {} a step, its program costs {}: it was edited\n",
                 seconds_text(predicted), seconds_text(priced));
    if (!options->page.empty() && !options->json) fmt::print("timeline written to {}\n", options->page);
    if (!options->trace.empty() && !options->json) fmt::print("trace written to {}\n", options->trace);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
