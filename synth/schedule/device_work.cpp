#include "synth/schedule/device_work.h"

#include <algorithm>

#include "synth/schedule/price.h"

namespace hetsynth::synth {

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
