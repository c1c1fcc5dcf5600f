#include "synth/device_work.h"

#include <algorithm>

#include "synth/baselines.h"
#include "synth/price.h"
#include "synth/ratios.h"

namespace hetsynth::synth {

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

std::vector<double> device_work(const Problem& problem, const Shares& shares, const Choices& choices) {
  std::vector<double> flops(problem.cost.device_count(), 0);
  double total = 0;
  for (const Node& node : problem.program.nodes) {
    if (node.leaf()) continue;
    const Work work = problem.cost.work(node.id, problem.rules.option(node.id, choices[node.id]));
    for (size_t d = 0; d < flops.size(); ++d) flops[d] += problem.cost.device_flops(work, shares, int(d));
  }
  for (double f : flops) total += f;
  return total > 0 ? flops : std::vector<double>(flops.size(), 1.0);
}

int class_of_most_work(const Problem& problem, const SpmdProgram& spmd) {
  std::vector<double> seconds(problem.classes.classes.size(), 0);
  const Pricer pricer(problem, spmd);
  for (const Instruction& instruction : spmd.instructions)
    if (instruction.opcode == Opcode::compute && instruction.splits[0].factor >= 0)
      seconds[size_t(problem.classes.factors[instruction.node][instruction.splits[0].factor])] +=
          pricer.price(instruction).seconds;
  const auto most = std::max_element(seconds.begin(), seconds.end());
  return most == seconds.end() || *most <= 0 ? -1 : int(most - seconds.begin());
}

}  // namespace hetsynth::synth
