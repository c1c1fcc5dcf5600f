#include "synth/space/tensor_needs.h"

#include "synth/space/analysis.h"

namespace hetsynth::synth {

const std::vector<VariableNeeds>& TensorNeeds::of(const Analysis& analysis, NodeId node) {
  const auto [it, fresh] = known_.try_emplace(analysis.tensor_situation[size_t(node)]);
  std::vector<VariableNeeds>& out = it->second;
  if (!fresh) return out;
  const Rules& rules = analysis.rules;
  const auto kept = [&](const Needs& masks) { return &*distinct_.insert(masks).first; };
  Needs masks;
  for (NodeId consumer : analysis.consumers[size_t(node)]) {
    VariableNeeds needs{is_late(analysis.program, consumer), {}};
    const std::vector<NodeId>& inputs = analysis.program[consumer].inputs;
    for (const Option& option : rules.options[consumer]) {
      masks.clear();
      for (size_t j = 0; j < inputs.size(); ++j)
        if (inputs[j] == node) masks.push_back(option.needs[j]);
      std::ranges::sort(masks);
      masks.erase(std::unique(masks.begin(), masks.end()), masks.end());
      needs.masks.add(kept(masks));
    }
    out.push_back(std::move(needs));
  }
  for (NodeId leaf : analysis.update_targets[size_t(node)]) {
    if (leaf == node) continue;  // kept as it is
    VariableNeeds needs{is_late(analysis.program, leaf), {}};
    const auto asks_for = [&](int form) {
      needs.masks.add(kept({rules.mask_of(node, rules.forms[leaf][size_t(form)])}));
    };
    if (analysis.program[leaf].leaf())
      for (int form : rules.leaf_forms(analysis.program[leaf])) asks_for(form);
    else  // a carry
      for (const Option& option : rules.options[leaf]) asks_for(option.form);
    out.push_back(std::move(needs));
  }
  return out;
}

VariableNeeds needs_among(const VariableNeeds& all, const std::vector<int>& values) {
  VariableNeeds out{all.late, {}};
  out.masks.of.reserve(values.size());
  for (int value : values) out.masks.add(all.masks.kinds[size_t(all.masks.of[size_t(value)])]);
  return out;
}

}  // namespace hetsynth::synth
