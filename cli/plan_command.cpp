// hetsynth plan: what would run on a cluster, with predicted time and memory. Needs none of the cluster's devices.
#include <fmt/format.h>

#include <cstdio>

#include "cli/compare.h"
#include "cli/pipeline_options.h"
#include "dsl/base/output_file.h"
#include "pipeline/pipeline.h"
#include "pipeline/report.h"
#include "synth/stages/peers/pipeline_peers.h"

namespace hetsynth::cli {

Command add_plan(CLI::App& app) {
  struct Options {
    Compilation compilation;
    PipelineOutput pipeline;
    std::string out;
    bool compare = false;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "Synthesize the program for a cluster and write it to a plan file");
  add_model_options(*command, options->compilation.model_options);
  command
      ->add_option("--cluster", options->compilation.cluster_file,
                   "Cluster file (TOML); the cluster need not be at hand")
      ->required();
  command
      ->add_option("--without", options->compilation.without, "Hosts or devices of the cluster file that are left out")
      ->type_name("NAME");
  command->add_option("-o,--output", options->out, "Write the plan to this file (JSON)");
  command->add_flag(
      "--compare", options->compare,
      "Also plan as other systems would (data parallel, ZeRO, Megatron, HAP, FlexFlow, Galvatron, pipelines of "
      "equal stages), in the same cost model");
  command->add_flag("--json", options->json, "Report as JSON");
  add_planning_options(*command, options->compilation);
  add_pipeline_options(*command, options->pipeline);
  return [options]() {
    Compilation& c = options->compilation;
    if (!options->out.empty())
      check_output(options->out, plan_file_kind, std::vector{c.model_options.file, c.cluster_file});
    run_pipeline(c, "synthesize", options->pipeline);
    if (!options->out.empty()) save_plan(options->out, c.plan, c.reference);
    std::vector<PeerPlan> peers;
    if (options->compare)
      peers = c.whole_step ? all_peers(*c.whole_step, &c.reference, c.turns.turns, c.all_devices)
                           : all_peers(c.reference, nullptr, 1, c.all_devices);
    if (options->json) {
      const std::string json = plan_json(c.plan, c.reference, c.left_out);
      fmt::print("{}", options->compare ? with_comparison(json, c.plan, peers) : json);
    } else {
      fmt::print("{}{}{}", plan_text(c.plan, c.reference, c.left_out), assumed_speeds_text(c.cluster, c.reference),
                 options->compare ? comparison_text(c.plan, c.turns.turns, peers) : "");
    }
    if (!options->out.empty() && !options->json) fmt::print("written to {}\n", options->out);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
