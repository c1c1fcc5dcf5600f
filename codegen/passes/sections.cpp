#include "codegen/passes/sections.h"

#include <algorithm>
#include <map>

namespace hetsynth::codegen {

std::vector<Section> sections(const LocalProgram& program) {
  // Nodes come in the order of micro-batches; an operator that makes a forward value again, or moves it, may come
  // later.
  std::map<NodeId, Phase> phase_of;
  for (const LocalOp& op : program.ops) {
    auto [entry, fresh] = phase_of.emplace(op.node, op.phase);
    entry->second = std::min(entry->second, op.phase);
  }
  std::map<NodeId, int> micro_batch;
  int number = 0;
  Phase before = Phase::forward;
  for (const auto& [node, phase] : phase_of) {
    if (before == Phase::backward && phase == Phase::forward) ++number;
    micro_batch[node] = number;
    before = phase;
  }
  constexpr int phases = 3;
  std::vector<Section> out;
  int loop = -1, stretch = 0;
  for (const LocalOp& op : program.ops) {
    stretch += op.loop != loop;
    loop = op.loop;
    out.push_back({stretch, micro_batch[op.node] * phases + int(op.phase)});
  }
  return out;
}

}  // namespace hetsynth::codegen
