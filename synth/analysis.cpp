#include "synth/analysis.h"

#include <algorithm>
#include <map>

namespace hetsynth::synth {
namespace {

DimensionClasses classes_for(DimensionClasses classes, int axes) {
  if (axes > 0) return classes;
  for (auto* table : {&classes.dims, &classes.factors})
    for (auto& row : *table) std::fill(row.begin(), row.end(), -1);
  classes.classes.clear();
  return classes;
}

Rules rules_for(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds, int axes,
                NestedCuts nested) {
  Rules rules = derive_rules(program, classes, kinds, std::max(1, axes), nested);
  if (axes > 0) return rules;
  Rules whole;
  whole.forms = std::move(rules.forms);
  int none = whole.options.add_kind({});
  std::map<size_t, int> by_operands;
  for (const Node& node : program.nodes) {
    if (node.leaf()) {
      whole.options.add(none);
      continue;
    }
    auto [it, fresh] = by_operands.try_emplace(node.inputs.size(), -1);
    if (fresh) it->second = whole.options.add_kind({rules.options[node.id].front()});
    whole.options.add(it->second);
  }
  return whole;
}

}  // namespace

double moved_times(const Program& program, NodeId node) {
  return stacked_dim(program[node].space) >= 0 ? 1 : double(program.turns(node));
}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested)
    : Analysis(program, axes, nested, node_kinds(program)) {}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> kinds)
    : Analysis(program, axes, nested, kinds, dimension_classes(program, kinds)) {}

std::shared_ptr<const Analysis> Analysis::of_one_device(const Analysis& several) {
  return std::shared_ptr<const Analysis>(
      new Analysis(several.program, 0, NestedCuts::none, several.kinds, several.classes));
}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> known,
                   DimensionClasses of_several)
    : program(program),
      kinds(std::move(known)),
      classes(classes_for(std::move(of_several), axes)),
      rules(rules_for(program, classes, kinds, axes, nested)),
      attention(program),
      consumers(program.consumers()),
      update_targets(program.nodes.size()),
      is_output(program.nodes.size(), 0) {
  for (const Update& update : program.updates) update_targets[update.value].push_back(update.target);
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) update_targets[c.next].push_back(c.carry);
  for (const NamedOutput& output : program.outputs) is_output[output.node] = 1;
  std::map<std::vector<int64_t>, int> number;
  for (const Node& node : program.nodes) {
    std::vector<int64_t> key{int64_t(node.type.dtype), rules.forms.kind(node.id),
                             int64_t(moved_times(program, node.id))};
    key.insert(key.end(), node.type.shape.begin(), node.type.shape.end());
    for (int c : classes.dims[node.id]) key.push_back(-1 - int64_t(c));
    auto [it, fresh] = number.try_emplace(std::move(key), int(tensor_example.size()));
    if (fresh) tensor_example.push_back(node.id);
    tensor_kind.push_back(it->second);
  }
}

}  // namespace hetsynth::synth
