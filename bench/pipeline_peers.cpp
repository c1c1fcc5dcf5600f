// Pipelines of other systems, and their plans without stages, against this planner's plan in turns and stages, in the
// same cost model. Prints a row for each model, cluster and memory; the last line sums them up.
//   bench_pipeline_peers [--tiny] [--flat] [--cluster=FILE]... [--memory=GB]... [--set NAME=VALUE]... [NAME...]
// Names as in docs/models.md; none: all models. Without a cluster: v100-p100 and the clusters of two homes. Memory: of
// every device, in place of the file's. --flat: also the plans of other systems that have no stages.
#include "synth/stages/peers/pipeline_peers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/processor_time.h"
#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "synth/planner/planned_step.h"
#include "synth/schedule/price.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

/// Predictions are sums of whole picoseconds; a plan may be slower by no more than their last digit.
constexpr double rounding = 1e-9;

struct Options {
  bool tiny = false, flat = false;
  std::vector<std::string> names, clusters, settings;
  std::vector<double> memory;
};

struct Summary {
  int rows = 0, behind = 0, only_peers = 0, only_ours = 0;
};

/// A step with its turns and stages.
std::string text(double seconds, int64_t turns, const Plan& plan) {
  return fmt::format("{:.1f} ms, {} x {}", seconds * 1e3, turns, stage_count(plan.program));
}

void compare(const std::string& model, const Program& program, const std::string& name, const Cluster& cluster,
             bool flat, Summary* summary) {
  std::optional<PlannedStep> own;
  const double start = processor_seconds();
  try {
    SynthesisOptions options;  // as `hetsynth plan` does
    options.most_axes = synth::usual_axes;
    options.drop_devices = true;
    own = synthesize_in_turns(program, cluster, options);
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
  }
  const double planned = processor_seconds();
  const double seconds = own ? own->plan.prediction.step_seconds : 0;
  std::string row =
      fmt::format("| {} | {} | {} |", model, name, own ? text(seconds, own->turns.turns, own->plan) : "does not fit");
  double best = HUGE_VAL;
  PeerOptions peers;
  if (own && own->program) peers = {.in_turns = &*own->program, .turns = own->turns};
  for (const PeerPlan& peer : flat ? all_peers(program, cluster, peers) : pipeline_peers(program, cluster)) {
    if (!peer.plan) {
      row += " - |";
      continue;
    }
    const double step = peer.plan->prediction.step_seconds;
    best = std::min(best, step);
    const std::string ratio = own ? fmt::format("{:.3f}", step / seconds) : "fits";
    row += step < seconds * (1 - rounding) || !own ? fmt::format(" **{}**", ratio) : " " + ratio;
    row += fmt::format(" ({} x {}) |", peer.turns, peer.stages);
  }
  row += fmt::format(" {:.0f} s | {:.0f} s |", planned - start, processor_seconds() - planned);
  ++summary->rows;
  if (own && best < seconds * (1 - rounding)) ++summary->behind;
  if (!own && best < HUGE_VAL) ++summary->only_peers;
  if (own && best == HUGE_VAL) ++summary->only_ours;
  fmt::print("{}\n", row);
  std::fflush(stdout);
}

int run(const Options& options) {
  Summary summary;
  std::string columns = "| model | cluster | ours |", rule = "|---|---|---|";
  std::vector<std::string> names{"GPipe", "1F1B", "Galvatron (stages)"};
  if (options.flat)
    names.insert(names.begin(),
                 {"even", "by speed", "ZeRO-1", "ZeRO-2", "ZeRO-3", "Megatron", "FlexFlow", "Galvatron", "HAP"});
  names.insert(names.end(), {"planning", "peers"});
  for (const std::string& name : names) columns += " " + name + " |", rule += "---|";
  fmt::print("{}\n{}\n", columns, rule);
  for (const ListedModel& model : listed_models({options.names.begin(), options.names.end()})) {
    if (options.tiny && !model.first_of_file) continue;
    Settings settings = options.tiny ? model.tiny : model.published;
    for (const std::string& setting : options.settings)
      settings[setting.substr(0, setting.find('='))] = setting.substr(setting.find('=') + 1);
    const TracedModel traced = trace_model(model, settings);
    for (const std::string& file : options.clusters) {
      Cluster cluster = load_cluster(file);
      for (const double memory : options.memory.empty() ? std::vector<double>{0} : options.memory) {
        for (Device& device : cluster.devices)
          if (memory > 0) device.memory_bytes = int64_t(memory * 1e9);
        const std::string name = memory > 0 ? fmt::format("{}, {} GB", cluster.name, memory) : cluster.name;
        compare(model.name, traced.program, name, cluster, options.flat, &summary);
      }
    }
  }
  fmt::print("\n{} rows; a peer is faster in {}; only a peer's plan fits in {}; only ours fits in {}.\n", summary.rows,
             summary.behind, summary.only_peers, summary.only_ours);
  return summary.behind + summary.only_peers == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Pipelines of other systems against this planner's plan, in the same cost model");
  app.add_option("NAME", options.names, "models, as in docs/models.md; none: all");
  app.add_flag("--tiny", options.tiny, "one model of each file, at its tiny size");
  app.add_flag("--flat", options.flat, "also plans without stages");
  app.add_option("--cluster", options.clusters, "cluster files")->allow_extra_args(false);
  app.add_option("--memory", options.memory, "of every device, GB")
      ->check(CLI::PositiveNumber)
      ->allow_extra_args(false);
  app.add_option("--set", options.settings, "settings of the models, NAME=VALUE")->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  if (options.clusters.empty())
    for (const char* file :
         {"examples/clusters/v100-p100.toml", "bench/clusters/one-pc.toml", "bench/clusters/two-pcs.toml"})
      options.clusters.push_back(std::string(HETSYNTH_SOURCE_DIR "/") + file);
  try {
    return run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
