#include "synth/baselines/peers/layers.h"

#include <algorithm>
#include <utility>

namespace hetsynth::synth {
namespace {

/// Gives a parameter's layer to what updates it, back to its gradient: tensors of its shape outside of the forward
/// pass.
void claim(const Program& program, NodeId value, NodeId parameter, std::vector<int>* layer) {
  const Node& node = program[value];
  const bool state = node.kind == NodeKind::state;
  if (node.type.shape != program[parameter].type.shape || (node.phase == Phase::forward && !state)) return;
  (*layer)[value] = (*layer)[parameter];
  if (node.phase == Phase::update)
    for (NodeId input : node.inputs) claim(program, input, parameter, layer);
}

}  // namespace

bool is_parameter_product(const Program& program, const Node& node) {
  return !node.leaf() && node.inputs.size() > 1 && node.space.reduction() == FactorKind::sum &&
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](NodeId input) { return program[input].kind == NodeKind::parameter; });
}

std::vector<int> layers_of(const Program& program) {
  std::vector<int> layer(program.nodes.size(), -1);
  int current = 0;
  bool met = false;
  for (const Node& node : program.nodes) {
    if (node.leaf() || node.phase != Phase::forward) continue;
    if (is_parameter_product(program, node)) current += std::exchange(met, true) ? 1 : 0;
    layer[node.id] = current;
    for (NodeId input : node.inputs)
      if (layer[input] < 0 && program[input].leaf()) layer[input] = current;
  }
  // What was saved in the forward pass tells the layer; else the largest operand does.
  for (const Node& node : program.nodes) {
    if (node.leaf() || node.phase == Phase::forward) continue;
    for (NodeId input : node.inputs)
      if (node.phase == Phase::backward && program[input].phase == Phase::forward)
        layer[node.id] = std::max(layer[node.id], layer[input]);
    int64_t largest = 0;
    for (NodeId input : node.inputs) {
      int64_t elements = element_count(program[input].type.shape);
      if (largest == 0 && layer[node.id] >= 0) break;
      if (layer[input] >= 0 && elements > largest) largest = elements, layer[node.id] = layer[input];
    }
  }
  for (const Update& update : program.updates)
    if (program[update.target].kind == NodeKind::parameter) claim(program, update.value, update.target, &layer);
  // A carry keeps from turn to turn the form of what it takes over.
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) layer[c.carry] = layer[c.next];
  for (int& l : layer) l = std::max(l, 0);
  return layer;
}

}  // namespace hetsynth::synth
