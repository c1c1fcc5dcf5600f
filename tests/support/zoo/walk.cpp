#include "tests/support/zoo/walk.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <tuple>

#include "dsl/base/error.h"
#include "dsl/transform/differentiate.h"
#include "runtime/launch.h"

namespace hetsynth::testing {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A text that differs from window to window, in a file that lives as long as this.
class TextFile {
 public:
  TextFile() : path_(std::filesystem::temp_directory_path() / ("hetsynth-zoo-" + std::to_string(::getpid()))) {
    std::ofstream out(path_);
    for (int i = 0; i < 6000; ++i) out << "the quick brown fox jumps over the lazy dog. "[(i * i / 7) % 45];
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Whether the model wants bytes of a text; other inputs have synthetic values where no file is given.
bool reads_text(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    const DataSource::Kind kind = node.data.kind;
    return kind == DataSource::Kind::text_tokens || kind == DataSource::Kind::text_targets ||
           kind == DataSource::Kind::text_next;
  });
}

Cluster devices(const std::vector<double>& speeds) {
  Cluster cluster = local_cluster(static_cast<int>(speeds.size()));
  for (size_t i = 0; i < speeds.size(); ++i) {
    cluster.devices[i].declared = {speeds[i] * 1e9, speeds[i] * 1e9};
    cluster.devices[i].measured = {};
  }
  return cluster;
}

bool normalises_batches(const Program& program) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
    return node.kind == NodeKind::state && node.name.ends_with(".running_mean");
  });
}

std::unique_ptr<Executor> start(const Program& program, const Plan& plan, const Cluster& cluster) {
  LaunchOptions options;
  options.executor.seed = 5;
  options.executor.threads.threads_per_rank = 1;
  options.optimization = 1;  // code that runs for twenty small steps is not worth optimising
  return launch(program, plan.program, ranks_of(plan, cluster), options);
}

}  // namespace

TracedModel trace_model(const ListedModel& model, const Settings& settings) {
  TracedModel out;
  auto start = Clock::now();
  out.code = load_model(model.path());
  out.load_seconds = seconds_since(start);
  start = Clock::now();
  const auto trace = out.code->trace(settings);
  out.program = differentiate(*trace);
  out.trace_seconds = seconds_since(start);
  return out;
}

std::optional<Plan> plan_in_part_of_memory(const Program& program, const SynthesisOptions& options, int64_t hundredths,
                                           int64_t spare, Cluster* devices) {
  const Plan roomy = synthesize(program, *devices, options);
  for (size_t d = 0; d < devices->devices.size(); ++d)
    devices->devices[d].memory_bytes = roomy.prediction.devices[d].memory_bytes * hundredths / 100 + spare;
  try {
    return synthesize(program, *devices, options);
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
    return std::nullopt;
  }
}

std::vector<int> ranks_that_differ(const Plan& plan) {
  std::set<std::tuple<DeviceKind, int64_t, int64_t>> seen;
  std::vector<int> out;
  for (size_t rank = 0; rank < plan.prediction.devices.size(); ++rank) {
    const DevicePrediction& device = plan.prediction.devices[rank];
    if (seen.emplace(plan.devices[rank].kind, device.memory_bytes, device.memory_limit_bytes).second)
      out.push_back(int(rank));
  }
  return out;
}

Cluster one_device() { return devices({1}); }
Cluster three_uneven_devices() { return devices({3, 1, 2}); }

double TwoRuns::largest_difference() const {
  double largest = 0;
  for (size_t i = 0; i < alone.size(); ++i)
    largest = std::max(largest, std::fabs(alone[i] - together.at(i)) / std::fabs(alone[i]));
  return largest;
}

TwoRuns train_on_both(const Program& program, const Plan& plan, const Cluster& cluster, int64_t steps) {
  const TextFile text;
  const auto data = open_data(program, {reads_text(program) ? text.path() : "", 5});
  const Cluster one = one_device();
  const auto alone = start(program, single_device_plan(program, one), one), together = start(program, plan, cluster);
  TwoRuns runs;
  runs.from_same_state = normalises_batches(program);
  for (int64_t step = 0; step < steps; ++step) {
    if (runs.from_same_state)
      for (const Update& update : program.updates) together->write(update.target, alone->read(update.target));
    runs.alone.push_back(alone->step(step, *data).loss);
    runs.together.push_back(together->step(step, *data).loss);
  }
  return runs;
}

}  // namespace hetsynth::testing
