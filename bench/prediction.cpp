// What a plan predicts against what happens: step time and memory of runs on this machine's cores, whose speeds are
// measured first. Run on a quiet machine.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/frontend/model.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "runtime/data/batch_source.h"
#include "runtime/launch.h"
#include "runtime/probe.h"
#include "runtime/rank/median.h"
#include "synth/planner/synthesize.h"

namespace {

using namespace hetsynth;

struct Case {
  const char* model;
  std::map<std::string, std::string> settings;
};

/// The cluster with every device as fast as this machine's cores are when so many of them work.
Cluster measured_cluster(const std::string& name) {
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/" + name + ".toml");
  const ProbeResult probe = probe_cores(int(cluster.devices.size()));
  for (Device& device : cluster.devices) device.measured = probe.speed;
  cluster.hosts[0].inside = probe.link;
  fmt::print("{}: {:.1f} GFLOP/s and {:.1f} GB/s per core, link {:.2f} GB/s, {:.1f} us\n", name,
             *probe.speed.matmul_flops_per_second / 1e9, *probe.speed.memory_bytes_per_second / 1e9,
             probe.link.bandwidth_bytes_per_second / 1e9, probe.link.latency_seconds * 1e6);
  return cluster;
}

double median_step(Executor& executor, const BatchSource& data) {
  std::vector<double> seconds;
  for (int64_t step = 0; step < 24; ++step) {
    const double took = executor.step(step, data).seconds;
    if (step >= 3) seconds.push_back(took);
  }
  return median(std::move(seconds));
}

void compare(const char* what, const Program& program, const Plan& plan, const Cluster& cluster) {
  const Cluster ranks = ranks_of(plan, cluster);
  const auto executor = launch(program, plan.program, ranks, {});
  const auto data = open_data(program, {"/usr/share/common-licenses", 0});
  const double measured = median_step(*executor, *data), predicted = plan.prediction.step_seconds;
  int64_t arena = 0, memory = 0;
  for (int64_t bytes : executor->arena_bytes()) arena = std::max(arena, bytes);
  for (const DevicePrediction& device : plan.prediction.devices) memory = std::max(memory, device.memory_bytes);
  fmt::print("  {:<26} {:>9.2f} ms {:>9.2f} ms {:>6.2f} {:>9.2f} MiB {:>9.2f} MiB {:>6.2f}\n", what, predicted * 1e3,
             measured * 1e3, predicted / measured, double(memory) / (1 << 20), double(arena) / (1 << 20),
             double(memory) / double(arena));
}

void run() {
  const std::vector<Case> cases{
      {"gpt", {{"width", "128"}, {"layers", "4"}, {"batch", "12"}, {"seq", "64"}}},
      {"gpt", {{"width", "384"}, {"heads", "6"}, {"layers", "2"}, {"batch", "8"}, {"seq", "128"}}},
      {"mlp", {{"batch", "1024"}}}};
  for (const char* name : {"two-equal", "unequal"}) {
    const Cluster cluster = measured_cluster(name);
    for (const Case& c : cases) {
      const auto model = load_model(fmt::format("{}/examples/{}.cpp", HETSYNTH_SOURCE_DIR, c.model));
      const auto trace = model->trace(c.settings);
      const Program program = differentiate(*trace);
      fmt::print("{} of {} parameters\n  {:<26} {:>12} {:>12} {:>6} {:>13} {:>13} {:>6}\n", c.model,
                 program.parameter_count(), "", "predicted", "measured", "ratio", "predicted", "arena", "ratio");
      compare("synthesized", program, synthesize(program, cluster), cluster);
      compare("even data parallel", program, data_parallel_plan(program, cluster), cluster);
      compare("fastest device alone", program, single_device_plan(program, cluster), cluster);
    }
  }
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
