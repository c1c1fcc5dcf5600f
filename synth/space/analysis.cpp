#include "synth/space/analysis.h"

#include <algorithm>
#include <map>

#include "synth/space/fused_tensors.h"
#include "synth/support/interner.h"

namespace hetsynth::synth {
namespace {

DimensionClasses classes_for(DimensionClasses classes, int axes) {
  if (axes > 0) return classes;
  for (auto* table : {&classes.dims, &classes.factors})
    for (auto& row : *table) std::fill(row.begin(), row.end(), -1);
  classes.classes.clear();
  return classes;
}

std::vector<std::vector<Analysis::Use>> uses_of(const Program& program) {
  std::vector<std::vector<Analysis::Use>> uses(program.nodes.size());
  for (const Node& node : program.nodes)
    for (size_t j = 0; j < node.inputs.size(); ++j) uses[size_t(node.inputs[j])].push_back({node.id, int(j)});
  return uses;
}

std::vector<std::vector<NodeId>> update_targets_of(const Program& program) {
  std::vector<std::vector<NodeId>> targets(program.nodes.size());
  for (const Update& update : program.updates) targets[size_t(update.value)].push_back(update.target);
  for (const TurnLoop& loop : program.loops)
    for (const TurnLoop::Carry& c : loop.carries) targets[size_t(c.next)].push_back(c.carry);
  return targets;
}

std::vector<char> outputs_of(const Program& program) {
  std::vector<char> outputs(program.nodes.size(), 0);
  for (const NamedOutput& output : program.outputs) outputs[size_t(output.node)] = 1;
  return outputs;
}

/// Of what is known so far.
Rules rules_for(const Analysis& of, int axes, NestedCuts nested) {
  const Program& program = of.program;
  Rules rules = derive_rules(program, of.classes, of.kinds, std::max(1, axes), nested);
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

std::vector<char> hideable_tensors(const Program& program, const std::vector<std::vector<Analysis::Use>>& uses) {
  std::vector<char> out;
  // Every node waits for the backward phase up to some node of it. A new parameter that waits for all of it, as where
  // gradients are clipped by the norm of all, has nothing left to hide beside.
  std::vector<NodeId> waits_for;  // by node; -1: for nothing of the backward phase
  NodeId last = -1;
  for (const Node& node : program.nodes)
    if (!node.leaf() && node.phase == Phase::backward) last = node.id;
  for (const Node& node : program.nodes) {
    NodeId latest = !node.leaf() && node.phase == Phase::backward ? node.id : -1;
    for (const NodeId input : node.inputs) latest = std::max(latest, waits_for[size_t(input)]);
    waits_for.push_back(latest);
  }
  for (const Node& node : program.nodes) {
    const std::vector<Analysis::Use>& readers = uses[size_t(node.id)];
    const bool for_update = !readers.empty() && std::ranges::all_of(readers, [&](const Analysis::Use& use) {
      return program[use.consumer].phase == Phase::update;
    });
    const bool carried = node.kind == NodeKind::parameter || node.kind == NodeKind::state;
    out.push_back(moved_times(program, node.id) == 1 &&
                  (carried || for_update || (node.phase == Phase::update && waits_for[size_t(node.id)] < last)));
  }
  return out;
}

}  // namespace

bool is_late(const Program& program, NodeId consumer) {
  if (consumer < 0) return false;
  const Node& node = program[consumer];
  return node.leaf() || node.phase != Phase::forward;
}

double moved_times(const Program& program, NodeId node) {
  return stacked_dim(program[node].space) >= 0 ? 1 : double(program.turns(node));
}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested)
    : Analysis(program, axes, nested, node_kinds(program)) {}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> kinds)
    : Analysis(program, axes, nested, kinds, dimension_classes(program, kinds, axes <= most_axes_with_halos)) {}

std::shared_ptr<const Analysis> Analysis::of_one_device(const Analysis& several) {
  if (!several.of_one_device_) {
    several.of_one_device_.reset(
        new Analysis(several.program, 0, NestedCuts::none, several.kinds, several.classes, &several));
    several.of_one_device_->hash_ = several.hash_;
  }
  return several.of_one_device_;
}

const std::string& Analysis::program_hash() const {
  if (hash_->empty()) *hash_ = hash_text(program);
  return *hash_;
}

Analysis::Analysis(const Program& program, int axes, NestedCuts nested, std::vector<int> of_nodes,
                   DimensionClasses of_several, const Analysis* known)
    : program(program),
      kinds(std::move(of_nodes)),
      classes(classes_for(std::move(of_several), axes)),
      attention(known ? known->attention : AttentionCost(program)),
      fused(known ? known->fused : fused_tensors(program, kinds)),
      consumers(known ? known->consumers : program.consumers()),
      uses(known ? known->uses : uses_of(program)),
      update_targets(known ? known->update_targets : update_targets_of(program)),
      is_output(known ? known->is_output : outputs_of(program)),
      may_hide(known ? known->may_hide : hideable_tensors(program, uses)),
      rules(rules_for(*this, axes, nested)) {
  find_tensor_kinds();
  find_tensor_situations();
}

void Analysis::find_tensor_kinds() {
  Interner<int64_t> number;
  std::vector<int64_t> key;
  for (const Node& node : program.nodes) {
    key.assign({int64_t(node.type.dtype), rules.forms.kind(node.id), int64_t(moved_times(program, node.id)),
                may_hide[size_t(node.id)]});
    key.insert(key.end(), node.type.shape.begin(), node.type.shape.end());
    for (int c : classes.dims[node.id]) key.push_back(-1 - int64_t(c));
    tensor_kind.push_back(number.number(key));
    if (tensor_kind.back() == int(tensor_example.size())) tensor_example.push_back(node.id);
  }
}

void Analysis::find_tensor_situations() {
  Interner<int> number;
  std::vector<int> key;
  for (const Node& node : program.nodes) {
    key.assign({tensor_kind[size_t(node.id)], rules.options.kind(node.id), int(node.kind), int(node.phase),
                node.id == program.loss, is_output[size_t(node.id)]});
    const std::vector<Use>& all = uses[size_t(node.id)];
    for (size_t u = 0; u < all.size(); ++u) {
      const NodeId consumer = all[u].consumer;
      if (u == 0 || all[u - 1].consumer != consumer)
        key.insert(key.end(), {-1, rules.options.kind(consumer), int(program[consumer].phase)});
      key.push_back(all[u].position);
    }
    for (NodeId target : update_targets[size_t(node.id)])
      key.insert(key.end(), {-2, target == node.id ? -1 : rules.forms.kind(target), rules.options.kind(target),
                             int(program[target].kind), int(program[target].phase)});
    tensor_situation.push_back(number.number(key));
  }
}

}  // namespace hetsynth::synth
