// hetsynth plan: what would run on a cluster, with predicted time and memory. Needs none of the cluster's devices.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "cli/compare.h"
#include "cli/pipeline_options.h"
#include "dsl/base/output_file.h"
#include "pipeline/pipeline.h"
#include "pipeline/report.h"
#include "runtime/rank/interrupt.h"
#include "runtime/rank/notice.h"
#include "synth/stages/peers/pipeline_peers.h"

namespace hetsynth::cli {
namespace {

/// The plans of other systems, in the turns that were asked for. Ctrl-C ends the comparison; where it ended planning,
/// there is none.
std::vector<PeerPlan> compared(const Compilation& c) {
  const bool before = stop_requested();
  const InterruptGuard interrupt;
  PeerOptions options;
  if (c.whole_step) options.in_turns = &c.reference;
  options.turns = c.turns;
  options.pinned = c.model_options.settings().contains("turns");
  options.stop = synth::StopToken([&] { return !before && !interrupt.requested(); });
  std::vector<PeerPlan> out = all_peers(c.whole_step ? *c.whole_step : c.reference, c.all_devices, options);
  const auto planned = std::ranges::count(out, true, &PeerPlan::compared);
  if (planned < std::ssize(out))
    notice("hetsynth: the comparison was interrupted; {} of {} other systems were planned\n", planned, out.size());
  return out;
}

}  // namespace

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
    const std::vector<PeerPlan> peers = options->compare ? compared(c) : std::vector<PeerPlan>{};
    if (options->json) {
      const std::string json = plan_json(c.plan, c.reference, c.left_out);
      fmt::print("{}", options->compare ? with_comparison(json, c.plan, peers) : json);
    } else {
      fmt::print("{}{}{}", plan_text(without_baselines_of(peers, c.plan), c.reference, c.left_out),
                 assumed_speeds_text(c.cluster, c.reference),
                 options->compare ? comparison_text(c.plan, c.turns.turns, peers) : "");
    }
    if (!options->out.empty() && !options->json) fmt::print("written to {}\n", options->out);
    return ExitCode::done;
  };
}

}  // namespace hetsynth::cli
