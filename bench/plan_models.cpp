// How long planning takes for the models of examples/ at their published sizes, and what it finds.
//   bench_plan_models [--cluster=FILE] [--mesh-axes=N] [--time-limit=S] [--all-devices] [--arenas]
//   [NAME...]
// One line per model: seconds of processor time for the whole planning, the step as it unfolds, that of the plan whose
// instructions add up to least, what the search minimised with its bound, the gap at the plan's shares and over all
// shares, the fullest device. With --arenas instead of these: what the fullest device is
// planned to need, and what generated code asks for there and at most of all devices in terms of what is planned.
// Names as in docs/models.md; none: all models.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "bench/processor_time.h"
#include "codegen/interface/device_program.h"
#include "dsl/base/error.h"
#include "hetsynth/build_paths.h"
#include "runtime/launch.h"
#include "synth/planner/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace {

using namespace hetsynth;
using namespace hetsynth::testing;

constexpr double gibibyte = 1 << 30;

/// Largest quotient over the devices, and that of the fullest one.
void report_arenas(const TracedModel& traced, const Plan& plan, const Cluster& cluster) {
  const Cluster ranks = ranks_of(plan, cluster);
  double planned = 0, arena = 0, limit = 0, fullest = 0, most = 0;
  for (int rank : ranks_that_differ(plan)) {
    const DevicePrediction& device = plan.prediction.devices[size_t(rank)];
    const double bytes = double(generate(traced.program, plan.program, ranks, rank).arena_bytes);
    most = std::max(most, bytes / double(device.memory_bytes));
    if (const double full = bytes / double(device.memory_limit_bytes); full > fullest)
      fullest = full, planned = double(device.memory_bytes), arena = bytes, limit = double(device.memory_limit_bytes);
  }
  fmt::print("{:>9.2f} {:>9.2f} {:>9.2f} {:>13.2f}\n", planned / gibibyte, arena / gibibyte, limit / gibibyte, most);
}

/// As it unfolds.
double step_of_least_sum(const Prediction& p) {
  const auto added = [](const Trial& trial) { return trial.step_seconds > 0 ? trial.added_seconds() : HUGE_VAL; };
  const auto least = std::ranges::min_element(p.considered, {}, added);
  return least == p.considered.end() ? p.step_seconds : least->step_seconds;
}

void report(const ListedModel& model, const Cluster& cluster, const SynthesisOptions& options, bool arenas) {
  const TracedModel traced = trace_model(model, model.published);
  fmt::print("{:<18} {:>6} ", model.name, traced.program.nodes.size());
  std::fflush(stdout);
  const double start = processor_seconds();
  try {
    const Plan plan = synthesize(traced.program, cluster, options);
    const double seconds = processor_seconds() - start;
    if (arenas) return report_arenas(traced, plan, cluster);
    const Prediction& p = plan.prediction;
    double fullest = 0;
    for (const DevicePrediction& device : p.devices) fullest = std::max(fullest, device.fullness());
    fmt::print("{:>8.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>8.3g} {:>11.3g} {:>7.0f} {:>7} {:>7.2f}\n", seconds,
               p.step_seconds * 1e3, 1e3 * step_of_least_sum(p), p.objective_seconds * 1e3, p.lower_bound_seconds * 1e3,
               100 * (1 - p.lower_bound_seconds / p.objective_seconds),
               100 * (1 - p.shares_bound_seconds / p.objective_seconds), 100 * fullest, plan.devices.size(),
               resident_gibibytes());
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
    fmt::print("{:>8.2f} {}; {}\n", processor_seconds() - start, error.diagnostic().message, error.diagnostic().found);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string cluster_file = HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml";
  SynthesisOptions options;
  bool all_devices = false, arenas = false;
  std::vector<std::string> names;
  CLI::App app("How long planning takes for the models of examples/, and what it finds");
  app.add_option("NAME", names, "models, as in docs/models.md; none: all");
  app.add_option("--cluster", cluster_file, "cluster file");
  app.add_option("--mesh-axes", options.most_axes, "mesh axes at most")->check(CLI::Range(1, 3));
  app.add_option("--time-limit", options.time_limit_seconds, "seconds for each plan")->check(CLI::NonNegativeNumber);
  app.add_flag("--all-devices", all_devices, "plans of fewer devices are not tried");
  app.add_flag("--arenas", arenas, "memory as planned and as generated code asks for it");
  CLI11_PARSE(app, argc, argv);
  options.drop_devices = !all_devices;
  options.runners_up = 2;  // as `hetsynth plan` does
  try {
    const std::vector<ListedModel> models = listed_models({names.begin(), names.end()});
    const Cluster cluster = load_cluster(cluster_file);
    if (arenas)
      fmt::print("{:<18} {:>6} {:>9} {:>9} {:>9} {:>13}\n", "GiB", "nodes", "planned", "arena", "memory",
                 "arena/planned");
    else
      fmt::print("{:<18} {:>6} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>11} {:>7} {:>7} {:>7}\n", "", "nodes", "plan, s",
                 "step, ms", "least sum", "added, ms", "bound, ms", "gap, %", "all shares", "full, %", "devices",
                 "GiB");
    for (const ListedModel& model : models) report(model, cluster, options, arenas);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
