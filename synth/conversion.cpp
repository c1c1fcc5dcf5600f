#include "synth/conversion.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace hetsynth::synth {

ConversionTable::ConversionTable(const CostModel& cost, NodeId node, const std::vector<Form>& forms,
                                 const Shares& shares)
    : forms_(int(forms.size())) {
  for (const Form& from : forms)
    for (const Form& to : forms) edges_.push_back(cost.conversion(node, from, to, shares));
  solve();
}

void ConversionTable::solve() {
  size_t sets = size_t(1) << forms_;
  cost_.assign(sets * forms_, forbidden);
  steps_.resize(sets * forms_);
  for (int v = 0; v < forms_; ++v) cost_[v] = 0;
  for (FormMask targets = 1; targets < sets; ++targets) {
    Picoseconds* cost = &cost_[size_t(targets) * forms_];
    Step* steps = &steps_[size_t(targets) * forms_];
    for (int v = 0; v < forms_; ++v) {
      if (targets >> v & 1) {  // the root is itself a target
        cost[v] = tree_cost(v, targets & ~(FormMask(1) << v));
        steps[v] = {Step::Kind::split, FormMask(1) << v, -1};
        continue;
      }
      for (FormMask part = (targets - 1) & targets; part > (targets ^ part); part = (part - 1) & targets) {
        Picoseconds sum = std::min(forbidden, tree_cost(v, part) + tree_cost(v, targets ^ part));
        if (sum < cost[v]) cost[v] = sum, steps[v] = {Step::Kind::split, part, -1};
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (int v = 0; v < forms_; ++v)
        for (int u = 0; u < forms_; ++u) {
          if (!edge(v, u).possible) continue;
          Picoseconds sum = std::min(forbidden, edge(v, u).cost + cost[u]);
          if (sum < cost[v]) cost[v] = sum, steps[v] = {Step::Kind::edge, 0, u}, changed = true;
        }
    }
  }
}

void ConversionTable::append_tree(int source, FormMask targets, std::vector<std::pair<int, int>>* out) const {
  targets &= ~(FormMask(1) << source);
  if (targets == 0) return;
  const Step& step = steps_[size_t(targets) * forms_ + source];
  if (step.kind == Step::Kind::split) {
    append_tree(source, step.part, out);
    append_tree(source, targets ^ step.part, out);
  } else if (step.kind == Step::Kind::edge) {
    if (std::find(out->begin(), out->end(), std::pair{source, step.to}) == out->end())
      out->push_back({source, step.to});
    append_tree(step.to, targets, out);
  }
}

std::vector<std::pair<int, int>> ConversionTable::tree(int source, FormMask targets) const {
  std::vector<std::pair<int, int>> out;
  append_tree(source, targets, &out);
  return out;
}

FormMask ConversionTable::best_set(int source, const std::vector<FormMask>& needs, Picoseconds* cost) const {
  FormMask useful = 0, best = 0;
  for (FormMask need : needs) useful |= need;
  *cost = forbidden;
  for (FormMask set = useful;; set = (set - 1) & useful) {
    bool holds = std::all_of(needs.begin(), needs.end(), [&](FormMask need) { return (need & set) != 0; });
    if (holds) {
      auto rank = [](Picoseconds c, FormMask m) { return std::tuple(c, std::popcount(m), m); };
      Picoseconds c = tree_cost(source, set);
      if (rank(c, set) < rank(*cost, best)) *cost = c, best = set;
    }
    if (set == 0) break;
  }
  return best;
}

Conversions::Conversions(const Analysis& analysis, const CostModel& cost, const Shares& shares) : analysis_(analysis) {
  for (NodeId node : analysis.tensor_example) tables_.emplace_back(cost, node, analysis.rules.forms[node], shares);
}

}  // namespace hetsynth::synth
