#include "synth/schedule/memory_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/error.h"

namespace hetsynth::synth {

MemoryFloor memory_floor(const Problem& problem) {
  const Program& program = problem.program;
  MemoryFloor floor;
  std::vector<double> made(program.nodes.size(), 0), freed(program.nodes.size(), 0);  // bytes, by node
  for (const Node& node : program.nodes) {
    double bytes = double(problem.cost.bytes(node.id));
    if (node.leaf()) {
      (node.kind == NodeKind::input       ? floor.inputs
       : node.kind == NodeKind::parameter ? floor.parameters
                                          : floor.states) += bytes;
      continue;
    }
    // New contents of leaves may be written over the old ones.
    if (problem.cost.fused(node.id) || !problem.update_targets[node.id].empty()) continue;
    NodeId last = node.id, last_early = node.id, first_late = -1;
    for (NodeId consumer : problem.consumers[node.id]) {
      last = std::max(last, consumer);
      if (!is_late(problem.program, consumer))
        last_early = std::max(last_early, consumer);
      else if (first_late < 0 || consumer < first_late)
        first_late = consumer;
    }
    made[node.id] += bytes;
    freed[last] += bytes;
    const bool again = problem.recompute && node.phase == Phase::forward && !problem.is_output[node.id] &&
                       node.id != program.loss && first_late > last_early;
    if (!again) continue;
    freed[last_early] += bytes;
    made[first_late] += bytes;
  }
  double live = 0;
  for (const Node& node : program.nodes) {
    live += made[node.id];
    if (live > floor.activations) floor.activations = live, floor.peak = node.id;
    live -= freed[node.id];
  }
  return floor;
}

double cluster_memory(const Cluster& cluster) {
  double sum = 0;
  for (const Device& device : cluster.devices) {
    if (device.memory_bytes <= 0) return HUGE_VAL;
    sum += double(device.memory_bytes);
  }
  return sum;
}

void check_memory_floor(const Problem& problem) {
  MemoryFloor floor = memory_floor(problem);
  double memory = cluster_memory(problem.cluster);
  if (floor.total() <= memory) return;
  SourceLocation where;
  where.file = problem.cluster.file;
  std::string blame = "a smaller model";
  if (floor.activations + floor.inputs > floor.parameters + floor.states)
    blame =
        problem.recompute ? "a smaller batch" : "a smaller batch, or values made again (leave out --forbid recompute)";
  throw UserError(
      {.where = where,
       .tag = "memory",
       .message = fmt::format("the memories of all {} devices together are too small, whatever the plan",
                              problem.cluster.devices.size()),
       .expected = fmt::format("at least {}: parameters {}, states {}, inputs {}, and {} of activations and gradients "
                               "that are needed at the same time{}",
                               bytes_text(floor.total()), bytes_text(floor.parameters), bytes_text(floor.states),
                               bytes_text(floor.inputs), bytes_text(floor.activations),
                               floor.peak >= 0 ? " (at " + problem.program[floor.peak].name + ")" : ""),
       .found = fmt::format("{} in all", bytes_text(memory)),
       .mend = blame + ", or more memory"},
      ExitCode::infeasible);
}

std::string bytes_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (bytes < 1024) return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.4g} TiB", bytes);
}

}  // namespace hetsynth::synth
