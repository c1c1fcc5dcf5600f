// hetsynth explain: where a plan's time goes, what every collective is for, and why other plans lose.
#include <fmt/format.h>

#include <cmath>

#include "cli/explain.h"
#include "cli/pipeline.h"
#include "cli/report.h"
#include "cli/timeline.h"
#include "dsl/base/file.h"

namespace hetsynth::cli {

Command add_explain(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOptions pipeline;
    std::string page;
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
  command->add_flag("--all", options->all, "List every operator and collective, not only the dearest");
  command->add_flag("--json", options->json, "Report as JSON, every instruction with its seconds per device");
  add_pipeline_options(*command, options->pipeline);
  return [options]() {
    Compilation& c = options->compilation;
    run_pipeline(c, "synthesize", options->pipeline);
    Explanation explanation{c.plan,
                            c.reference,
                            price_instructions(c.reference, c.plan.program, c.cluster),
                            alternatives(c.plan, c.reference, load_cluster(c.cluster_file)),
                            {},
                            memory_at_peak(c.reference, c.plan.program, c.cluster),
                            on_one_ring(c.plan, c.reference, c.cluster)};
    explanation.timeline =
        simulate(c.plan.program, explanation.prices, unfolding_of(c.reference, c.plan.program, c.cluster));
    if (!options->page.empty())
      write_file_atomically(options->page, "timeline",
                            timeline_page(c.plan, c.reference, explanation.prices, explanation.timeline));
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
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
