#include "dsl/ir/recomputation.h"

namespace hetsynth {

int Recomputation::region_of(NodeId node) const {
  for (size_t r = 0; r < trace_.recomputed.size(); ++r)
    if (trace_.recomputed[r].first <= node && node < trace_.recomputed[r].last) return int(r);
  return -1;
}

void Recomputation::make_again(int region) {
  if (region < 0 || !made_.insert(region).second) return;
  Program& program = trace_.program;
  std::set<int> loops;
  for (NodeId id = trace_.recomputed[region].first; id < trace_.recomputed[region].last; ++id) {
    if (program[id].leaf()) continue;
    Node copy = program[id];
    copy.id = NodeId(program.nodes.size());
    copy.name += ".again";
    copy.phase = Phase::backward;
    copy.recomputation = region + 1;
    for (NodeId& input : copy.inputs) input = now(input, region);
    if (copy.loop >= 0) {
      loops.insert(copy.loop);
      auto [entry, fresh] = again_loop_.try_emplace(copy.loop, int(program.loops.size()));
      if (fresh) program.loops.push_back({program.loops[copy.loop].turns, {}, program.loops[copy.loop].of_samples});
      copy.loop = entry->second;
    }
    again_[id] = copy.id;
    program.nodes.push_back(std::move(copy));
  }
  for (int loop : loops)
    for (const TurnLoop::Carry& c : program.loops[loop].carries)
      program.loops[again_loop_.at(loop)].carries.push_back({again_.at(c.carry), again_.at(c.next)});
}

void Recomputation::redirect(NodeId first, int region) {
  if (region < 0) return;
  for (size_t i = size_t(first); i < trace_.program.nodes.size(); ++i) {
    Node& node = trace_.program.nodes[i];
    for (NodeId& input : node.inputs) input = now(input, region);
    if (auto loop = again_loop_.find(node.loop); loop != again_loop_.end()) node.loop = loop->second;
  }
}

NodeId Recomputation::now(NodeId node, int region) const {
  const Trace::Region& r = trace_.recomputed[size_t(region)];
  auto found = node >= r.first && node < r.last ? again_.find(node) : again_.end();
  return found == again_.end() ? node : found->second;
}

}  // namespace hetsynth
