#include "synth/shares/start_shares.h"

#include <algorithm>
#include <map>

#include "synth/mesh/device_types.h"

namespace hetsynth::synth {
namespace {

/// Seconds of the whole step on each device, nothing cut.
std::vector<double> whole_step_seconds(const Problem& problem) {
  std::map<int, double> count;  // by kind of work
  std::map<int, NodeId> example;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf()) continue;
    ++count[problem.cost.work_kind(node.id)];
    example.try_emplace(problem.cost.work_kind(node.id), node.id);
  }
  const DeviceTypes types = device_types(problem.cluster);
  std::vector<double> by_type(types.devices.size(), 0), seconds;
  for (const auto& [kind, times] : count) {
    Work work = problem.cost.work(example[kind], Option{});
    for (size_t t = 0; t < by_type.size(); ++t)
      by_type[t] += times * problem.cost.device_seconds(work, whole_part, types.devices[t][0]);
  }
  for (int type : types.type_of) seconds.push_back(by_type[size_t(type)]);
  return seconds;
}

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
  double rate = 0;
  for (double seconds : whole_step_seconds(problem)) {
    if (seconds <= 0) return 0;
    rate += 1 / seconds;
  }
  return 1 / rate;
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
