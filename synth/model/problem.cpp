#include "synth/model/problem.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "synth/model/distinct_devices.h"

namespace hetsynth::synth {

FormMask readable(const std::vector<Form>& forms) {
  FormMask mask = 0;
  for (size_t i = 0; i < forms.size(); ++i)
    if (!forms[i].partial() && !forms[i].overlaps()) mask |= FormMask(1) << i;
  return mask;
}

namespace {

/// Data of the batch is read from its source in any cut: the whole is kept only if some consumer cannot do with one
/// common cut.
int input_form(const std::vector<Form>& forms, const std::vector<TensorNeed>& needs) {
  FormMask common = ~FormMask(0);
  for (const TensorNeed& need : needs) common &= need.forms;
  for (int form = 1; !needs.empty() && form < int(forms.size()); ++form)
    if ((common >> form & 1) && !forms[size_t(form)].partial()) return form;
  return 0;
}

}  // namespace

Problem::Problem(const Program& program, const Cluster& cluster, const std::string& axis)
    : Problem(std::make_shared<const Analysis>(program, cluster.devices.size() > 1 ? 1 : 0), cluster,
              flat_mesh(cluster, axis)) {}

Problem::Problem(std::shared_ptr<const Analysis> given, const Cluster& cluster, const Mesh& mesh)
    : analysis(std::move(given)),
      program(analysis->program),
      cluster(cluster),
      mesh(mesh),
      classes(analysis->classes),
      rules(analysis->rules),
      cost(program, classes, analysis->kinds, analysis->attention, analysis->fused, this->cluster, mesh),
      consumers(analysis->consumers),
      update_targets(analysis->update_targets),
      is_output(analysis->is_output) {}

void Problem::constrain(const PlanPins& given) {
  check_pins(given, cluster);
  pins = pinned_values(*this, given);
  ratio = given.ratio;
  cost.forbid(given.forbidden);
  constrained = given.any();
  recompute = given.recompute;
}

Mesh flat_mesh(const Cluster& cluster, const std::string& axis) { return {{{axis, int(cluster.devices.size())}}}; }

const Form& kept_form(const Problem& problem, const Choices& choices, NodeId node) {
  int form = choices[node];
  if (!problem.program[node].leaf()) form = problem.rules.options[node][form].form;
  return problem.rules.forms[node][form];
}

namespace {

void add_needs(const Problem& problem, const Choices& choices, NodeId node, std::vector<TensorNeed>* needs) {
  const auto& uses = problem.analysis->uses[node];
  for (auto begin = uses.begin(); begin != uses.end();) {
    const auto end = std::find_if(begin, uses.end(), [&](auto& use) { return use.consumer != begin->consumer; });
    const Option& option = problem.rules.option(begin->consumer, choices[begin->consumer]);
    for (auto use = begin; use != end; ++use)
      needs->push_back({use->consumer, use->position, option.needs[size_t(use->position)]});
    begin = end;
  }
  for (NodeId leaf : problem.update_targets[node]) {
    needs->push_back({leaf, -1, problem.rules.mask_of(node, kept_form(problem, choices, leaf))});
  }
  if (node == problem.program.loss) needs->push_back({-1, -1, 1});
  if (problem.is_output[node]) needs->push_back({-1, -1, readable(problem.rules.forms[node])});
}

}  // namespace

std::vector<TensorNeed> needs_of(const Problem& problem, const Choices& choices, NodeId node) {
  std::vector<TensorNeed> needs;
  add_needs(problem, choices, node, &needs);
  return needs;
}

namespace {

/// The form a tensor is first made in.
int source_of(const Problem& problem, const Choices& choices, const Node& node, const std::vector<TensorNeed>& needs) {
  if (node.kind == NodeKind::input) return input_form(problem.rules.forms[node.id], needs);
  return node.leaf() ? choices[node.id] : problem.rules.option(node.id, choices[node.id]).form;
}

/// `chosen`: the sets that memory decided, or none. `masks`: what the consumers need.
Materialisation made_from(const ConversionTable& table, int source, const FormSets& chosen,
                          const std::vector<FormMask>& masks) {
  Materialisation out;
  out.source = source;
  out.sets = chosen;
  if (chosen.chosen) {
    out.cost = table.tree_cost(source, chosen.early);
    if (chosen.apart) out.cost = std::min(forbidden, out.cost + table.tree_cost(source, chosen.late));
  } else {
    out.sets = {};
    out.sets.early = table.best_set(source, masks, &out.cost);
  }
  if (out.cost >= forbidden) return out;
  out.steps = table.tree(source, out.sets.early);
  if (out.sets.apart) out.late_steps = table.tree(source, out.sets.late);
  return out;
}

FormSets chosen_sets(const Choices& choices, const Node& node) {
  if (choices.sets.empty() || node.kind == NodeKind::input) return {};
  return choices.sets[node.id];
}

void set_distinct_masks(const std::vector<TensorNeed>& needs, std::vector<FormMask>* masks) {
  masks->clear();
  for (const TensorNeed& need : needs) masks->push_back(need.forms);
  std::sort(masks->begin(), masks->end());
  masks->erase(std::unique(masks->begin(), masks->end()), masks->end());
}

}  // namespace

Materialisation materialise(const Problem& problem, const Conversions& conversions, const Choices& choices, NodeId id) {
  const Node& node = problem.program[id];
  std::vector<TensorNeed> needs = needs_of(problem, choices, id);
  std::vector<FormMask> masks;
  set_distinct_masks(needs, &masks);
  return made_from(conversions.of(id), source_of(problem, choices, node, needs), chosen_sets(choices, node), masks);
}

const Materialisation& Materialiser::of(const Choices& choices, NodeId id) {
  const Node& node = problem_.program[id];
  needs_.clear();
  add_needs(problem_, choices, id, &needs_);
  set_distinct_masks(needs_, &masks_);
  const int source = source_of(problem_, choices, node, needs_);
  FormSets sets = chosen_sets(choices, node);
  key_.assign(
      {conversions_.kind_of(id), source, sets.chosen * 2 + sets.apart, int64_t(sets.early), int64_t(sets.late)});
  key_.insert(key_.end(), masks_.begin(), masks_.end());
  auto [it, fresh] = seen_.try_emplace(key_);
  if (fresh) it->second = made_from(conversions_.of(id), source, sets, masks_);
  return it->second;
}

std::vector<const Materialisation*> Materialiser::all(const Choices& choices) {
  std::vector<const Materialisation*> out;
  out.reserve(problem_.program.nodes.size());
  std::vector<NodeId> last;  // by situation: the last node in it, whose neighbours often choose the same
  for (const Node& node : problem_.program.nodes) {
    const size_t situation = size_t(problem_.analysis->tensor_situation[size_t(node.id)]);
    if (situation >= last.size()) last.resize(situation + 1, -1);
    const NodeId before = std::exchange(last[situation], node.id);
    out.push_back(before >= 0 && alike(choices, before, node.id) ? out[size_t(before)] : &of(choices, node.id));
  }
  return out;
}

/// Whether two tensors in one situation come to the same.
bool Materialiser::alike(const Choices& choices, NodeId a, NodeId b) const {
  const auto same = [&](NodeId x, NodeId y) { return choices[x] == choices[y]; };
  return same(a, b) && std::ranges::equal(problem_.consumers[a], problem_.consumers[b], same) &&
         std::ranges::equal(problem_.update_targets[a], problem_.update_targets[b], same) &&
         (choices.sets.empty() || choices.sets[a] == choices.sets[b]);
}

Picoseconds total_cost(const Problem& problem, const Conversions& conversions, const Shares& shares,
                       const Choices& choices) {
  const DistinctDevices devices(problem.cost, shares);
  return total_cost(problem, conversions, choices, [&](NodeId node, const Option& option) {
    return problem.cost.operator_cost(node, option, shares, devices);
  });
}

Picoseconds total_cost(const Problem& problem, const Conversions& conversions, const Choices& choices,
                       const std::function<Picoseconds(NodeId, const Option&)>& operation) {
  Picoseconds total = 0;
  PairNumbers number;  // by what an operation costs by
  std::vector<Picoseconds> costs;
  Materialiser materialiser(problem, conversions);
  const std::vector<const Materialisation*> made = materialiser.all(choices);
  for (const Node& node : problem.program.nodes) {
    total = std::min(forbidden, total + made[size_t(node.id)]->cost);
    if (node.leaf()) continue;
    int& known = number.at({PairNumbers::word(problem.cost.work_kind(node.id), problem.rules.options.kind(node.id)),
                            uint64_t(choices[node.id])});
    if (known < 0) {
      known = int(costs.size());
      costs.push_back(operation(node.id, problem.rules.option(node.id, choices[node.id])));
    }
    total = std::min(forbidden, total + costs[size_t(known)]);
  }
  return total;
}

double overlap(const Node& node, const Placement& placement) {
  if (!placement.overlaps()) return 0;
  return double(placement.before + placement.after) / double(node.type.shape.at(size_t(placement.dim)));
}

}  // namespace hetsynth::synth
