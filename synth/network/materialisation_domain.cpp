#include "synth/network/materialisation_domain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "synth/support/parameters.h"

namespace hetsynth::synth {
std::vector<FormSets> MaterialisationDomain::of(const Node& node, const std::vector<int>& from,
                                                const std::set<FormMask>& early, const std::set<FormMask>& late,
                                                const std::vector<FormMask>& fixed) const {
  std::set<FormMask> all = early;
  all.insert(late.begin(), late.end());
  std::vector<FormSets> out;
  for (FormMask set : useful_sets(node, from, all))
    if (serves(set, fixed)) out.push_back({true, false, set, 0});
  const bool may_part = prices_.any() && node.kind != NodeKind::input && !early.empty() && !late.empty() &&
                        !prices_.stays_through_a_loop(node);
  if (!may_part) return out;
  std::vector<FormMask> early_sets = useful_sets(node, from, early, most_forms_apart),
                        late_sets = useful_sets(node, from, late, most_forms_apart);
  if (early_sets.size() * late_sets.size() > most_pairs_of_sets) {
    early_sets = useful_sets(node, from, early, 1);
    late_sets = useful_sets(node, from, late, 1);
  }
  for (FormMask set : early_sets)
    for (FormMask other : late_sets)
      if (serves(set, fixed) && (set | other) != 0) out.push_back({true, true, set, other});
  return unbeaten(node, from, early, late, out);
}

/// Without those that serve the same needs as another and cost no less from any source.
std::vector<FormSets> MaterialisationDomain::unbeaten(const Node& node, const std::vector<int>& from,
                                                      const std::set<FormMask>& early, const std::set<FormMask>& late,
                                                      const std::vector<FormSets>& sets) const {
  std::map<std::vector<char>, std::vector<std::pair<Table, size_t>>> by_service;
  auto no_dearer = [](const Table& a, const Table& b) {
    return std::equal(a.begin(), a.end(), b.begin(), [](Picoseconds x, Picoseconds y) { return x <= y; });
  };
  std::vector<char> service;
  Table costs(from.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    service.clear();
    for (FormMask need : early) service.push_back((need & sets[i].early) != 0);
    for (FormMask need : late) service.push_back((need & (sets[i].apart ? sets[i].late : sets[i].early)) != 0);
    cost(node, from, sets[i], costs.data());
    auto& rivals = by_service[service];
    if (std::any_of(rivals.begin(), rivals.end(), [&](auto& rival) { return no_dearer(rival.first, costs); })) continue;
    std::erase_if(rivals, [&](auto& rival) { return no_dearer(costs, rival.first); });
    rivals.push_back({costs, i});
  }
  std::vector<size_t> left;
  for (const auto& [service, rivals] : by_service)
    for (const auto& rival : rivals) left.push_back(rival.second);
  std::sort(left.begin(), left.end());
  std::vector<FormSets> out;
  for (size_t i : left) out.push_back(sets[i]);
  return out;
}

/// Sets of forms that no other set beats: one that meets the same needs and costs no more from any source.
std::vector<FormMask> MaterialisationDomain::useful_sets(const Node& node, const std::vector<int>& from,
                                                         const std::set<FormMask>& masks, int most) const {
  const FormSubsets::Found& all = problem_.analysis->subsets.of(
      std::vector<FormMask>(masks.begin(), masks.end()), std::min(most, conversions_.of(node.id).most_targets()));
  const size_t count = all.sets.size();
  Table costs(count * from.size());  // by set and source
  std::vector<char> left(count);
  for (size_t i = 0; i < count; ++i) {
    Picoseconds* own = costs.data() + i * from.size();
    cost(node, from, {true, false, all.sets[i], 0}, own);
    left[i] = std::any_of(own, own + from.size(), [](Picoseconds c) { return c < forbidden; });
  }
  const auto beats = [&](size_t a, size_t b) {
    for (size_t s = 0; s < from.size(); ++s)
      if (costs[a * from.size() + s] > costs[b * from.size() + s]) return false;
    return true;
  };
  std::vector<FormMask> sets;
  for (size_t b = count; b-- > 0;)
    for (size_t r = all.begins[b]; r < all.begins[b + 1] && left[b]; ++r)
      left[b] = !left[size_t(all.rivals[r])] || !beats(size_t(all.rivals[r]), b);
  for (size_t i = 0; i < count; ++i)
    if (left[i]) sets.push_back(all.sets[i]);
  return sets;
}

void MaterialisationDomain::cost(const Node& node, const std::vector<int>& from, const FormSets& sets,
                                 Picoseconds* costs) const {
  static const Table none(max_forms, 0);
  const ConversionTable& table = conversions_.of(node.id);
  const auto trees = [&](FormMask set) -> const Table& { return set == 0 ? none : table.tree_costs(set); };
  const Table &early = trees(sets.early), &late = trees(sets.late);
  for (size_t s = 0; s < from.size(); ++s) {
    const auto source = size_t(from[s]);
    costs[s] = early[source];
    if (sets.apart)
      costs[s] = problem_.rules.forms[node.id][source].partial() ? forbidden : add(costs[s], late[source]);
    if (prices_.any()) costs[s] = add(costs[s], prices_.of_kept(node, from[s], sets));
  }
}

}  // namespace hetsynth::synth
