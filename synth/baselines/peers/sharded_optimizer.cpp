#include "synth/baselines/peers/sharded_optimizer.h"

namespace hetsynth::synth {
namespace {

/// Forms of a parameter or state: whole, or cut in some dimension where it has one to cut.
std::vector<int> kept_forms(const Rules& rules, NodeId leaf, bool cut) {
  std::vector<int> forms;
  for (int f = 0; f < int(rules.forms[leaf].size()); ++f)
    if (cut && rules.forms[leaf][f].sharded() && !rules.forms[leaf][f].partial()) forms.push_back(f);
  return forms.empty() ? std::vector<int>{0} : forms;
}

/// What the consumers before or after the end of the forward pass need of a tensor.
std::vector<FormMask> needed_masks(const Problem& problem, const Choices& choices, NodeId node, bool late) {
  std::vector<FormMask> masks;
  for (const TensorNeed& need : needs_of(problem, choices, node))
    if (is_late(problem.program, need.consumer) == late) masks.push_back(need.forms);
  return masks;
}

}  // namespace

Choices sharded_optimizer_choices(const AtShares& at, int stage) {
  const Problem& problem = at.problem;
  const Choices data_parallel = data_parallel_choices(problem);
  Pins pins;
  for (const Node& node : problem.program.nodes) {
    if (node.kind == NodeKind::parameter || node.kind == NodeKind::state)
      pins[node.id] = kept_forms(problem.rules, node.id, node.kind == NodeKind::state || stage == 3);
    else if (!node.leaf() && node.phase != Phase::update)
      pins[node.id] = {data_parallel[node.id]};
  }
  Choices choices = at.cheapest(pins);
  if (choices.empty()) return choices;
  choices.sets.resize(problem.program.nodes.size());
  Picoseconds ignored;
  for (const Node& node : problem.program.nodes) {
    const ConversionTable& table = at.conversions.of(node.id);
    FormSets& sets = choices.sets[node.id];
    if (stage == 3 && node.kind == NodeKind::parameter && choices[node.id] != 0) {
      sets = {true, true, table.best_set(choices[node.id], needed_masks(problem, choices, node.id, false), &ignored),
              table.best_set(choices[node.id], needed_masks(problem, choices, node.id, true), &ignored)};
      continue;
    }
    // A gradient that the optimizer reads: the sum is made whole before a part is taken.
    bool updates = false;
    for (NodeId consumer : problem.consumers[node.id])
      updates = updates || problem.program[consumer].phase == Phase::update;
    if (stage > 1 || node.leaf() || !updates) continue;
    const int source = problem.rules.options[node.id][choices[node.id]].form;
    if (!problem.rules.forms[node.id][source].partial()) continue;
    sets = {true, false, materialise(problem, at.conversions, choices, node.id).sets.early | 1, 0};
  }
  return choices;
}

}  // namespace hetsynth::synth
