#include "synth/rules.h"

#include <algorithm>
#include <map>
#include <set>

namespace hetsynth::synth {
namespace {

/// Beyond this many operands only single ones and all together are tried as partial sets.
constexpr size_t max_enumerated_operands = 5;
/// Dimensions after this many are never cut: sets of forms are enumerated.
constexpr size_t max_cut_dims = 6;

Option replicated_option(const Node& node) { return Option{-1, std::vector<FormMask>(node.inputs.size(), 1), 0}; }

/// The result's form may be -1: one that the tensor cannot take.
Option split_option(const Program& program, const Rules& rules, const Node& node, int factor) {
  Option option{factor, {}, -1};
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    const Node& input = program[node.inputs[j]];
    FormMask mask = 1;
    auto cut = cut_of(node.space, node.space.inputs[j], input.type.shape, factor);
    int index = cut ? rules.form_index(input.id, {Form::Kind::sharded, cut->dim}) : -1;
    if (index >= 0) mask |= FormMask(1) << index;
    option.needs.push_back(mask);
  }
  Form form;
  switch (node.space.factors[factor].kind) {
    case FactorKind::sum:
      form.kind = Form::Kind::partial_sum;
      break;
    case FactorKind::max:
      form.kind = Form::Kind::partial_max;
      break;
    default:
      form = {Form::Kind::sharded, cut_of(node.space, node.space.output, node.type.shape, factor)->dim};
  }
  option.form = rules.form_index(node.id, form);
  return option;
}

std::vector<uint32_t> partial_sets(size_t operands) {
  std::vector<uint32_t> sets;
  if (operands <= max_enumerated_operands) {
    for (uint32_t set = 1; set < (1u << operands); ++set) sets.push_back(set);
  } else if (operands < 32) {
    for (size_t j = 0; j < operands; ++j) sets.push_back(1u << j);
    sets.push_back((1u << operands) - 1);
  }
  return sets;
}

void add_pass_options(const Rules& rules, const Node& node, std::vector<Option>* options) {
  if (node.space.reduction() == FactorKind::max) return;
  for (uint32_t set : partial_sets(node.inputs.size())) {
    std::set<int> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j)
      if (set >> j & 1) operands.insert(int(j));
    if (linearity(node.body, operands) != Linearity::linear) continue;
    Option option = replicated_option(node);
    for (int j : operands) option.needs[j] = FormMask(1) << rules.form_index(node.inputs[j], {Form::Kind::partial_sum});
    option.form = rules.form_index(node.id, {Form::Kind::partial_sum});
    options->push_back(option);
  }
}

}  // namespace

std::vector<Form> forms_of(const Program& program, const DimensionClasses& classes, NodeId node) {
  std::vector<Form> forms{{}};
  for (size_t d = 0; d < classes.dims[node].size() && forms.size() <= max_cut_dims; ++d)
    if (classes.dims[node][d] >= 0) forms.push_back({Form::Kind::sharded, int(d)});
  forms.push_back({Form::Kind::partial_sum});
  if (program[node].space.reduction() == FactorKind::max) forms.push_back({Form::Kind::partial_max});
  return forms;
}

int Rules::form_index(NodeId node, Form form) const {
  auto it = std::find(forms[node].begin(), forms[node].end(), form);
  return it == forms[node].end() ? -1 : int(it - forms[node].begin());
}

namespace {

std::vector<Option> options_of(const Program& program, const DimensionClasses& classes, const Rules& rules,
                               const Node& node) {
  std::vector<Option> options;
  if (node.leaf()) return options;
  options.push_back(replicated_option(node));
  for (size_t f = 0; f < node.space.factors.size(); ++f)
    if (classes.factors[node.id][f] >= 0) {
      Option option = split_option(program, rules, node, int(f));
      if (option.form >= 0) options.push_back(std::move(option));
    }
  add_pass_options(rules, node, &options);
  return options;
}

}  // namespace

Rules derive_rules(const Program& program, const DimensionClasses& classes, const std::vector<int>& kinds) {
  Rules rules;
  std::map<std::vector<int>, int> form_kinds, option_kinds;
  std::map<std::vector<int>, int> seen_forms;  // by content
  for (const Node& node : program.nodes) {
    std::vector<int> key{kinds[node.id]};
    for (int c : classes.dims[node.id]) key.push_back(c >= 0);
    auto [it, fresh] = form_kinds.try_emplace(std::move(key), -1);
    if (fresh) {
      std::vector<Form> forms = forms_of(program, classes, node.id);
      std::vector<int> content;
      for (const Form& form : forms) content.push_back(int(form.kind) * 64 + form.dim + 1);
      auto [known, first] = seen_forms.try_emplace(std::move(content), -1);
      if (first) known->second = rules.forms.add_kind(std::move(forms));
      it->second = known->second;
    }
    rules.forms.add(it->second);
  }
  for (const Node& node : program.nodes) {
    std::vector<int> key{node.leaf() ? -1 : kinds[node.id], rules.forms.kind(node.id)};
    for (NodeId input : node.inputs) key.push_back(rules.forms.kind(input));
    for (int c : classes.factors[node.id]) key.push_back(c >= 0);
    auto [it, fresh] = option_kinds.try_emplace(std::move(key), -1);
    if (fresh) it->second = rules.options.add_kind(options_of(program, classes, rules, node));
    rules.options.add(it->second);
  }
  return rules;
}

}  // namespace hetsynth::synth
