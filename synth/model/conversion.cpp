#include "synth/model/conversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "synth/space/covering_sets.h"
#include "synth/support/function_multiversioning.h"

namespace hetsynth::synth {
namespace {

/// Tensors with at most so many forms: every set of forms can be materialised.
constexpr int few_forms = 9;
/// With at most so many: every set of three.
constexpr int some_forms = 16;

/// Where the sum of two costs is less than what is known, it and the part that goes to the first.
HETSYNTH_AVX2_TOO void take_if_less(const Picoseconds* one, const Picoseconds* other, size_t count, FormMask part,
                                    Picoseconds* __restrict known, FormMask* __restrict parts) {
  for (size_t v = 0; v < count; ++v) {
    const Picoseconds sum = one[v] + other[v];
    parts[v] = sum < known[v] ? part : parts[v];
    known[v] = sum < known[v] ? sum : known[v];
  }
}

/// The same of costs to a form, and what it costs from there on.
HETSYNTH_AVX2_TOO void take_if_less(const Picoseconds* to, Picoseconds from_there, size_t count, int64_t form,
                                    Picoseconds* __restrict known, int64_t* __restrict at) {
  for (size_t v = 0; v < count; ++v) {
    const Picoseconds sum = to[v] + from_there;
    at[v] = sum < known[v] ? form : at[v];
    known[v] = sum < known[v] ? sum : known[v];
  }
}

}  // namespace

ConversionTable::ConversionTable(NodeId node, const std::vector<Form>& forms, const Edge& edge)
    : forms_(int(forms.size())) {
  edges_.reserve(forms.size() * forms.size());
  for (const Form& from : forms)
    for (const Form& to : forms) edges_.push_back(edge(node, from, to));
  if (forms_ <= few_forms) trees_of_few_.resize(size_t(1) << forms_);
  find_paths();
}

int ConversionTable::most_targets() const { return forms_ <= few_forms ? forms_ : forms_ <= some_forms ? 3 : 2; }

const ConversionTable::Trees& ConversionTable::trees(FormMask targets) const {
  if (forms_ <= few_forms) {
    std::unique_ptr<Trees>& known = trees_of_few_[size_t(targets)];
    if (!known) known = std::make_unique<Trees>(solve(targets));
    return *known;
  }
  auto it = trees_.find(targets);
  if (it == trees_.end()) it = trees_.emplace(targets, solve(targets)).first;
  return it->second;
}

void ConversionTable::find_paths() {
  distance_.assign(edges_.size(), forbidden);
  next_.assign(edges_.size(), -1);
  for (int v = 0; v < forms_; ++v)
    for (int u = 0; u < forms_; ++u) {
      if (edge(v, u).possible) distance_[v * forms_ + u] = edge(v, u).cost, next_[v * forms_ + u] = u;
      if (u == v) distance_[v * forms_ + u] = 0;
    }
  for (int by = 0; by < forms_; ++by)
    for (int v = 0; v < forms_; ++v)
      for (int u = 0; u < forms_; ++u) {
        Picoseconds sum = std::min(forbidden, distance(v, by) + distance(by, u));
        if (sum < distance(v, u)) distance_[v * forms_ + u] = sum, next_[v * forms_ + u] = next_[v * forms_ + by];
      }
  distance_to_.resize(distance_.size());
  for (int v = 0; v < forms_; ++v)
    for (int u = 0; u < forms_; ++u) distance_to_[u * forms_ + v] = distance(v, u);
}

/// Of all sources. For one of the targets it comes to the tree of the others: a detour to where it is split later costs
/// no less.
ConversionTable::Trees ConversionTable::solve(FormMask targets) const {
  // Where the tree first splits, and at what cost from there on.
  std::array<Picoseconds, max_forms> split;
  std::array<FormMask, max_forms> parts;
  const auto forms = size_t(forms_);
  std::fill(split.begin(), split.begin() + forms_, forbidden);
  std::fill(parts.begin(), parts.begin() + forms_, 0);
  for (FormMask part = (targets - 1) & targets; part > (targets ^ part); part = (part - 1) & targets)
    take_if_less(tree_costs(part).data(), tree_costs(targets ^ part).data(), forms, part, split.data(), parts.data());
  for (FormMask left = targets; left != 0; left &= left - 1) {
    const int v = std::countr_zero(left);
    const FormMask own = FormMask(1) << v;
    split[size_t(v)] = tree_cost(v, targets & ~own), parts[size_t(v)] = own;
  }
  Trees out{std::vector<Picoseconds>(forms, forbidden), std::vector<Step>(forms)};
  std::array<int64_t, max_forms> at;
  std::fill(at.begin(), at.begin() + forms_, -1);
  for (int u = 0; u < forms_; ++u)
    if (split[size_t(u)] < forbidden)
      take_if_less(distance_to_.data() + size_t(u) * forms, split[size_t(u)], forms, u, out.cost.data(), at.data());
  for (size_t v = 0; v < forms; ++v)
    if (at[v] >= 0) out.steps[v] = {int(at[v]), parts[size_t(at[v])]};
  return out;
}

void ConversionTable::append_tree(int source, FormMask targets, std::vector<std::pair<int, int>>* out) const {
  targets &= ~(FormMask(1) << source);
  if (targets == 0) return;
  const Step step = trees(targets).steps[source];
  while (source != step.at) {
    int stop = next_[source * forms_ + step.at];
    if (std::find(out->begin(), out->end(), std::pair{source, stop}) == out->end()) out->push_back({source, stop});
    source = stop;
  }
  append_tree(source, step.part, out);
  append_tree(source, targets & ~step.part, out);
}

std::vector<std::pair<int, int>> ConversionTable::tree(int source, FormMask targets) const {
  std::vector<std::pair<int, int>> out;
  append_tree(source, targets, &out);
  return out;
}

void ConversionTable::try_set(int source, FormMask set, const std::vector<FormMask>& needs, FormMask* best,
                              Picoseconds* cost) const {
  if (!serves(set, needs)) return;
  auto rank = [](Picoseconds c, FormMask m) { return std::tuple(c, std::popcount(m), m); };
  Picoseconds c = tree_cost(source, set);
  if (rank(c, set) < rank(*cost, *best)) *cost = c, *best = set;
}

FormMask ConversionTable::best_set(int source, const std::vector<FormMask>& needs, Picoseconds* cost) const {
  FormMask useful = 0, best = 0;
  for (FormMask need : needs) useful |= need;
  *cost = forbidden;
  if (forms_ <= few_forms) {
    for (FormMask set = useful;; set = (set - 1) & useful) {
      try_set(source, set, needs, &best, cost);
      if (set == 0) break;
    }
    return best;
  }
  // More forms than needs never pay. The form it is computed in counts where it serves: just so the network counts it.
  std::vector<FormMask> distinct = needs;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for_small_subsets(useful, std::min(most_targets(), int(distinct.size())),
                    [&](FormMask set) { try_set(source, set, needs, &best, cost); });
  return best;
}

Conversions::Conversions(const Analysis& analysis, const CostModel& cost, const Shares& shares) : analysis_(analysis) {
  for (NodeId node : analysis.tensor_example) {
    const std::vector<Form>& forms = analysis.rules.forms[node];
    std::vector<std::vector<double>> held(forms.size());  // by form and device
    for (size_t f = 0; f < forms.size(); ++f) {
      held[f].reserve(size_t(cost.device_count()));
      for (int d = 0; d < cost.device_count(); ++d) held[f].push_back(cost.local_bytes(node, forms[f], shares, d));
    }
    std::vector<Conversion> known;  // by numbers of forms
    known.reserve(forms.size() * forms.size());
    tables_.emplace_back(node, forms, [&](NodeId, const Form& from, const Form& to) {
      const auto a = size_t(&from - forms.data()), b = size_t(&to - forms.data());
      // An all-to-all takes as long one way as the other.
      if (b < a && known[b * forms.size() + a].opcode == Opcode::all_to_all)
        known.push_back(known[b * forms.size() + a]);
      else
        known.push_back(cost.repeated(cost.conversion(from, to, held[a], held[b]), node));
      return known.back();
    });
  }
}

Conversions::Conversions(const Analysis& analysis, const ConversionTable::Edge& edge) : analysis_(analysis) {
  for (NodeId node : analysis.tensor_example) tables_.emplace_back(node, analysis.rules.forms[node], edge);
}

}  // namespace hetsynth::synth
