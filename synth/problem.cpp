#include "synth/problem.h"

#include <algorithm>

namespace hetsynth::synth {
namespace {

/// On a single device nothing is cut.
DimensionClasses classes_for(const Program& program, const Cluster& cluster) {
  DimensionClasses classes = dimension_classes(program);
  if (cluster.devices.size() > 1) return classes;
  for (auto* table : {&classes.dims, &classes.factors})
    for (auto& row : *table) std::fill(row.begin(), row.end(), -1);
  classes.classes.clear();
  return classes;
}

/// ... and nothing is partial.
Rules rules_for(const Program& program, const DimensionClasses& classes, const Cluster& cluster) {
  Rules rules = derive_rules(program, classes);
  if (cluster.devices.size() > 1) return rules;
  for (auto& options : rules.options) options.resize(std::min<size_t>(1, options.size()));
  return rules;
}

FormMask not_partial(const std::vector<Form>& forms) {
  FormMask mask = 0;
  for (size_t i = 0; i < forms.size(); ++i)
    if (!forms[i].partial()) mask |= FormMask(1) << i;
  return mask;
}

/// Data of the batch is read from its source in any cut: the whole is kept only if some consumer cannot do with one
/// common cut.
int input_form(const std::vector<TensorNeed>& needs) {
  FormMask common = ~FormMask(0);
  for (const TensorNeed& need : needs) common &= need.forms;
  for (int form = 1; !needs.empty() && form < 32; ++form)
    if (common >> form & 1) return form;
  return 0;
}

}  // namespace

Problem::Problem(const Program& program, const Cluster& cluster)
    : program(program),
      cluster(cluster),
      classes(classes_for(program, cluster)),
      rules(rules_for(program, classes, cluster)),
      cost(program, classes, this->cluster),
      consumers(program.consumers()),
      update_targets(program.nodes.size()),
      is_output(program.nodes.size(), 0) {
  for (const Update& update : program.updates) update_targets[update.value].push_back(update.target);
  for (const NamedOutput& output : program.outputs) is_output[output.node] = 1;
}

std::vector<TensorNeed> needs_of(const Problem& problem, const Choices& choices, NodeId node) {
  std::vector<TensorNeed> needs;
  for (NodeId consumer : problem.consumers[node]) {
    const Option& option = problem.rules.options[consumer][choices[consumer]];
    const auto& inputs = problem.program[consumer].inputs;
    for (size_t j = 0; j < inputs.size(); ++j)
      if (inputs[j] == node) needs.push_back({consumer, int(j), option.needs[j]});
  }
  for (NodeId leaf : problem.update_targets[node]) {
    const Form& kept = problem.rules.forms[leaf][choices[leaf]];
    needs.push_back({leaf, -1, FormMask(1) << problem.rules.form_index(node, kept)});
  }
  if (node == problem.program.loss) needs.push_back({-1, -1, 1});
  if (problem.is_output[node]) needs.push_back({-1, -1, not_partial(problem.rules.forms[node])});
  return needs;
}

bool is_late(const Problem& problem, NodeId consumer) {
  if (consumer < 0) return false;
  const Node& node = problem.program[consumer];
  return node.leaf() || node.phase != Phase::forward;
}

Materialisation materialise(const Problem& problem, const Conversions& conversions, const Choices& choices,
                            NodeId node) {
  auto needs = needs_of(problem, choices, node);
  Materialisation out;
  const Node& n = problem.program[node];
  if (n.kind == NodeKind::input)
    out.source = input_form(needs);
  else
    out.source = n.leaf() ? choices[node] : problem.rules.options[node][choices[node]].form;
  const ConversionTable& table = conversions.of(node);
  if (!choices.sets.empty()) out.sets = choices.sets[node];
  if (out.sets.chosen && n.kind != NodeKind::input) {
    out.cost = table.tree_cost(out.source, out.sets.early);
    if (out.sets.apart) out.cost = std::min(forbidden, out.cost + table.tree_cost(out.source, out.sets.late));
  } else {
    std::vector<FormMask> masks;
    for (const TensorNeed& need : needs) masks.push_back(need.forms);
    out.sets = {};
    out.sets.early = table.best_set(out.source, masks, &out.cost);
  }
  if (out.cost >= forbidden) return out;
  out.steps = table.tree(out.source, out.sets.early);
  if (out.sets.apart) out.late_steps = table.tree(out.source, out.sets.late);
  return out;
}

Picoseconds total_cost(const Problem& problem, const Conversions& conversions, const Shares& shares,
                       const Choices& choices) {
  Picoseconds total = 0;
  for (const Node& node : problem.program.nodes) {
    Picoseconds cost = materialise(problem, conversions, choices, node.id).cost;
    if (!node.leaf())
      cost += problem.cost.operator_cost(node.id, problem.rules.options[node.id][choices[node.id]], shares);
    total = std::min(forbidden, total + cost);
  }
  return total;
}

}  // namespace hetsynth::synth
