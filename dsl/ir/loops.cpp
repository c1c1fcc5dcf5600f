#include "dsl/ir/loops.h"

#include <numeric>
#include <queue>

namespace hetsynth {

std::vector<NodeId> execution_order(const Program& program) {
  std::vector<NodeId> order(program.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  if (program.loops.empty()) return order;
  // A loop is one unit, named after its first node; within it, numbers are an order.
  std::vector<NodeId> first_of_loop(program.loops.size(), -1);
  std::vector<std::vector<NodeId>> members(program.nodes.size());
  std::vector<NodeId> unit(program.nodes.size());
  for (const Node& node : program.nodes) {
    unit[node.id] = node.id;
    if (node.loop >= 0) {
      NodeId& first = first_of_loop[node.loop];
      if (first < 0) first = node.id;
      unit[node.id] = first;
    }
    members[unit[node.id]].push_back(node.id);
  }
  std::vector<std::vector<NodeId>> followers(program.nodes.size());
  std::vector<int> missing(program.nodes.size(), 0);
  for (const Node& node : program.nodes)
    for (NodeId input : node.inputs)
      if (unit[input] != unit[node.id]) {
        followers[unit[input]].push_back(unit[node.id]);
        ++missing[unit[node.id]];
      }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const Node& node : program.nodes)
    if (unit[node.id] == node.id && missing[node.id] == 0) ready.push(node.id);
  order.clear();
  while (!ready.empty()) {
    NodeId at = ready.top();
    ready.pop();
    order.insert(order.end(), members[at].begin(), members[at].end());
    for (NodeId next : followers[at])
      if (--missing[next] == 0) ready.push(next);
  }
  HETSYNTH_CHECK(order.size() == program.nodes.size(), "no loop reads what depends on its own results");
  return order;
}

void hoist_invariants(Program& program, int loop) {
  std::vector<bool> stays(program.nodes.size(), false);
  for (const TurnLoop::Carry& c : program.loops[size_t(loop)].carries)
    for (NodeId id : {c.carry, c.next})
      if (id >= 0) stays[id] = true;  // none where an error ended the body
  for (Node& node : program.nodes) {
    if (node.loop != loop || stays[node.id] || follows_turn(node.space)) continue;
    bool varies = false;
    for (NodeId input : node.inputs) varies = varies || program[input].loop == loop;
    if (!varies) node.loop = -1;
  }
}

}  // namespace hetsynth
