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

/// By node: operations whose result is read more than once. Not in loops, whose carries have one form; not in
/// attention, which is generated in one piece; nor where an operand lives only inside of the operation's loop, since it
/// would have to live outside of two.
std::vector<char> may_be_computed_twice(const Program& program, const std::vector<int>& kinds,
                                        const AttentionCost& attention) {
  std::vector<int> readers(program.nodes.size(), 0);
  for (const Node& node : program.nodes)
    for (NodeId input : node.inputs) ++readers[size_t(input)];
  for (const Update& update : program.updates) ++readers[size_t(update.value)];
  for (const NamedOutput& output : program.outputs) ++readers[size_t(output.node)];
  if (program.loss >= 0) ++readers[size_t(program.loss)];
  const std::vector<char> fused = fused_tensors(program, kinds);
  std::vector<char> out;
  for (const Node& node : program.nodes)
    out.push_back(!node.leaf() && node.loop < 0 && readers[size_t(node.id)] > 1 && attention.role(node.id) == 0 &&
                  std::ranges::none_of(node.inputs, [&](NodeId input) { return fused[size_t(input)]; }));
  return out;
}

Rules rules_for(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds, int axes,
                NestedCuts nested, const std::vector<char>& twice) {
  Rules rules = derive_rules(program, classes, kinds, std::max(1, axes), nested, twice);
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

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, bool two_ways)
    : Analysis(program, axes, nested, two_ways && axes == 1, node_kinds(program)) {}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, bool two_ways, std::vector<int> kinds)
    : Analysis(program, axes, nested, two_ways, kinds, dimension_classes(program, kinds)) {}

std::shared_ptr<const Analysis> Analysis::of_one_device(const Analysis& several) {
  if (!several.of_one_device_) {
    several.of_one_device_.reset(
        new Analysis(several.program, 0, NestedCuts::none, false, several.kinds, several.classes));
    several.of_one_device_->hash_ = several.hash_;
  }
  return several.of_one_device_;
}

const std::string& Analysis::program_hash() const {
  if (hash_->empty()) *hash_ = hash_text(program);
  return *hash_;
}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, bool two_ways, std::vector<int> known,
                   DimensionClasses of_several)
    : program(program),
      kinds(std::move(known)),
      classes(classes_for(std::move(of_several), axes)),
      attention(program),
      two_ways(two_ways),
      rules(rules_for(program, classes, kinds, axes, nested,
                      two_ways ? may_be_computed_twice(program, kinds, attention) : std::vector<char>())),
      consumers(program.consumers()),
      uses(program.nodes.size()),
      update_targets(program.nodes.size()),
      is_output(program.nodes.size(), 0) {
  for (const Update& update : program.updates) update_targets[update.value].push_back(update.target);
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) update_targets[c.next].push_back(c.carry);
  for (const NamedOutput& output : program.outputs) is_output[output.node] = 1;
  for (const Node& node : program.nodes)
    for (size_t j = 0; j < node.inputs.size(); ++j) uses[node.inputs[j]].push_back({node.id, int(j)});
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
