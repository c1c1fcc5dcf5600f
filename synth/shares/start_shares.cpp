#include "synth/shares/start_shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "synth/mesh/device_types.h"
#include "synth/support/linear_program.h"

namespace hetsynth::synth {
namespace {

/// Operations that are alike: how many a step has, and by type of device the seconds of one of them, nothing cut.
struct AlikeOperations {
  double count = 0;
  std::vector<double> seconds;
};

std::vector<AlikeOperations> operations_by_kind(const Problem& problem, const DeviceTypes& types) {
  std::map<int, AlikeOperations> by_kind;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf()) continue;
    AlikeOperations& alike = by_kind[problem.cost.work_kind(node.id)];
    if (alike.count++ > 0) continue;
    const Work work = problem.cost.work(node.id, Option{});
    for (const auto& devices : types.devices)
      alike.seconds.push_back(problem.cost.device_seconds(work, whole_part, devices[0]));
  }
  std::vector<AlikeOperations> out;
  for (auto& [kind, alike] : by_kind) out.push_back(std::move(alike));
  return out;
}

/// Seconds of the whole step on each device, nothing cut.
std::vector<double> whole_step_seconds(const Problem& problem) {
  const DeviceTypes types = device_types(problem.cluster);
  std::vector<double> by_type(types.devices.size(), 0), seconds;
  for (const AlikeOperations& alike : operations_by_kind(problem, types))
    for (size_t t = 0; t < by_type.size(); ++t) by_type[t] += alike.count * alike.seconds[t];
  for (int type : types.type_of) seconds.push_back(by_type[size_t(type)]);
  return seconds;
}

/// A linear program's answer is good to less than this part of it.
constexpr double precision_of_bound = 1e-6;

}  // namespace

std::vector<double> device_speeds(const Problem& problem) {
  std::vector<double> speeds;
  for (double seconds : whole_step_seconds(problem)) speeds.push_back(seconds > 0 ? 1 / seconds : 1.0);
  return speeds;
}

int fastest_device(const Problem& problem) {
  std::vector<double> seconds = whole_step_seconds(problem);
  return int(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
}

double ideal_seconds(const Problem& problem) {
  const DeviceTypes types = device_types(problem.cluster);
  double sum = 0;
  for (const AlikeOperations& alike : operations_by_kind(problem, types)) {
    double rate = 0;
    for (size_t t = 0; t < types.devices.size(); ++t) rate += double(types.devices[t].size()) / alike.seconds[t];
    sum += alike.count / rate;
  }
  return sum;
}

double least_busy_seconds(const Problem& problem) {
  const DeviceTypes types = device_types(problem.cluster);
  const double scale = ideal_seconds(problem);
  if (scale <= 0) return 0;
  LinearProgram program;
  const int longest = program.add_variable(0, HUGE_VAL, 1);
  std::vector<std::vector<std::pair<int, double>>> busy(types.devices.size(), {{longest, 1}});
  for (const AlikeOperations& alike : operations_by_kind(problem, types)) {
    std::vector<std::pair<int, double>> whole;
    for (size_t t = 0; t < busy.size(); ++t) {
      whole.push_back({program.add_variable(0, HUGE_VAL, 0), 1});
      const double seconds = alike.count * alike.seconds[t] / double(types.devices[t].size());
      busy[t].push_back({whole.back().first, -seconds / scale});
    }
    program.add_row(1, HUGE_VAL, std::move(whole));
  }
  for (auto& row : busy) program.add_row(0, HUGE_VAL, std::move(row));
  const auto solved = program.solve();
  return solved ? (*solved)[size_t(longest)] * scale * (1 - precision_of_bound) : 0;
}

std::vector<std::vector<double>> parts_to_start_at(const Problem& problem) {
  const auto& devices = problem.cluster.devices;
  if (!problem.ratio.empty()) return {problem.ratio};
  const std::vector<double> even(devices.size(), 1.0);
  if (device_types(problem.cluster).devices.size() < 2) return {even};
  std::vector<std::vector<double>> starts{device_speeds(problem), even};
  std::vector<double> flops, bandwidth, memory, fastest;
  for (const Device& d : devices) {
    flops.push_back(d.matmul_flops_per_second());
    bandwidth.push_back(d.memory_bytes_per_second());
    memory.push_back(double(d.memory_bytes));
  }
  double peak = *std::max_element(flops.begin(), flops.end());
  for (double f : flops) fastest.push_back(f == peak ? 1.0 : 0.0);
  for (const auto& start : {flops, bandwidth, memory, fastest})
    if (std::any_of(start.begin(), start.end(), [](double x) { return x > 0; })) starts.push_back(start);
  return starts;
}

std::vector<std::vector<double>> axis_fractions(const Problem& problem, const std::vector<double>& by_device) {
  double sum = 0;
  for (double f : by_device) sum += f;
  std::vector<std::vector<double>> fractions;
  for (size_t axis = 0; axis < problem.mesh.axes.size(); ++axis) {
    fractions.emplace_back(problem.mesh.axes[axis].size, 0.0);
    for (size_t d = 0; d < by_device.size(); ++d)
      fractions.back()[problem.cost.coordinate(int(d), int(axis))] += by_device[d] / sum;
  }
  return fractions;
}

}  // namespace hetsynth::synth
