#include "synth/search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// A consumer whose need depends on a variable: per value, the masks it asks for.
struct VariableNeeds {
  NodeId variable;
  bool late;
  std::vector<std::vector<FormMask>> by_value;
};

bool holds(FormMask set, const std::vector<FormMask>& masks) {
  return std::all_of(masks.begin(), masks.end(), [&](FormMask mask) { return (mask & set) != 0; });
}

class NetworkBuilder {
 public:
  NetworkBuilder(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input)
      : problem_(problem), program_(problem.program), conversions_(conversions), shares_(shares), input_(input) {}

  PlanNetwork build() {
    for (const Node& node : program_.nodes) add_node(node);
    for (const Node& node : program_.nodes) add_tensor(node);
    return std::move(out_);
  }

 private:
  /// The form a node's tensor is first made in, by value of its variable.
  std::vector<int> sources(const Node& node) const {
    std::vector<int> forms;
    if (node.kind == NodeKind::input) return {0};
    if (!node.leaf())
      for (const Option& option : problem_.rules.options[node.id]) forms.push_back(option.form);
    else
      for (size_t f = 0; f < problem_.rules.forms[node.id].size(); ++f)
        if (!problem_.rules.forms[node.id][f].partial()) forms.push_back(int(f));
    return forms;
  }

  void add_node(const Node& node) {
    size_t domain = sources(node).size();
    out_.network.add_variable(int(domain), node.id);
    for (size_t v = 0; v < domain; ++v)
      if (node.leaf())
        out_.network.add_cost(node.id, int(v), price(node, int(v)));
      else
        out_.network.add_cost(node.id, int(v),
                              problem_.cost.operator_cost(node.id, problem_.rules.options[node.id][v], shares_));
    if (!input_.pins) return;
    auto pin = input_.pins->find(node.id);
    if (pin == input_.pins->end()) return;
    for (int v = 0; v < int(domain); ++v)
      if (std::find(pin->second.begin(), pin->second.end(), v) == pin->second.end())
        out_.network.add_cost(node.id, v, forbidden);
  }

  std::vector<VariableNeeds> variable_needs(const Node& node) const {
    std::vector<VariableNeeds> out;
    for (NodeId consumer : problem_.consumers[node.id]) {
      VariableNeeds needs{consumer, is_late(problem_, consumer), {}};
      for (const Option& option : problem_.rules.options[consumer]) {
        std::set<FormMask> masks;
        const auto& inputs = program_[consumer].inputs;
        for (size_t j = 0; j < inputs.size(); ++j)
          if (inputs[j] == node.id) masks.insert(option.needs[j]);
        needs.by_value.emplace_back(masks.begin(), masks.end());
      }
      out.push_back(std::move(needs));
    }
    for (NodeId leaf : problem_.update_targets[node.id]) {
      if (leaf == node.id) continue;  // kept as it is
      VariableNeeds needs{leaf, true, {}};
      for (int form : sources(program_[leaf]))
        needs.by_value.push_back({FormMask(1) << problem_.rules.form_index(node.id, problem_.rules.forms[leaf][form])});
      out.push_back(std::move(needs));
    }
    return out;
  }

  std::vector<FormMask> constant_needs(const Node& node) const {
    std::vector<FormMask> out;
    if (node.id == program_.loss) out.push_back(1);
    FormMask whole_or_cut = 0;
    for (size_t f = 0; f < problem_.rules.forms[node.id].size(); ++f)
      if (!problem_.rules.forms[node.id][f].partial()) whole_or_cut |= FormMask(1) << f;
    if (problem_.is_output[node.id]) out.push_back(whole_or_cut);
    return out;
  }

  bool priced() const { return !input_.memory_price.empty(); }

  /// Price of keeping a tensor in a form on all devices.
  Picoseconds price(const Node& node, int form) const {
    double sum = 0;
    for (size_t d = 0; d < input_.memory_price.size(); ++d)
      sum += input_.memory_price[d] *
             double(problem_.cost.local_bytes(node.id, problem_.rules.forms[node.id][form], shares_, int(d)));
    return sum >= double(forbidden) ? forbidden : Picoseconds(std::llround(sum));
  }

  /// Price of what stays of a tensor until its late consumers have read it; a leaf's own form is priced at the leaf.
  Picoseconds kept_price(const Node& node, int source, const FormSets& sets) const {
    if (!priced() || node.kind == NodeKind::input) return 0;
    bool saved = std::any_of(
        problem_.consumers[node.id].begin(), problem_.consumers[node.id].end(),
        [&](NodeId consumer) { return program_[consumer].phase != (node.leaf() ? Phase::forward : node.phase); });
    if (!saved || problem_.cost.fused(node.id)) return 0;
    FormMask kept = sets.apart ? 0 : sets.early;
    if (!problem_.rules.forms[node.id][source].partial()) kept |= FormMask(1) << source;
    Picoseconds sum = 0;
    for (int form = 0; kept >> form; ++form)
      if ((kept >> form & 1) && !(node.leaf() && form == source)) sum = add(sum, price(node, form));
    return sum;
  }

  Picoseconds sets_cost(const Node& node, int source, const FormSets& sets) const {
    const ConversionTable& table = conversions_.of(node.id);
    Picoseconds cost = table.tree_cost(source, sets.early);
    if (sets.apart) {
      if (problem_.rules.forms[node.id][source].partial()) return forbidden;
      cost = add(cost, table.tree_cost(source, sets.late));
    }
    return add(cost, kept_price(node, source, sets));
  }

  void add_tensor(const Node& node) {
    std::vector<VariableNeeds> needs = variable_needs(node);
    std::vector<FormMask> fixed = constant_needs(node);
    std::vector<int> from = sources(node);
    const ConversionTable& table = conversions_.of(node.id);
    if (needs.empty()) {
      for (size_t v = 0; v < from.size(); ++v) {
        Picoseconds cost = 0;
        table.best_set(from[v], fixed, &cost);
        out_.network.add_cost(node.id, int(v), cost);
      }
    } else if (needs.size() == 1 && !priced()) {
      std::vector<Picoseconds> costs;
      for (int source : from)
        for (const auto& masks : needs[0].by_value) {
          std::vector<FormMask> all = fixed;
          all.insert(all.end(), masks.begin(), masks.end());
          costs.emplace_back();
          table.best_set(source, all, &costs.back());
        }
      out_.network.add_pair(node.id, needs[0].variable, std::move(costs));
    } else {
      add_set_variable(node, from, needs, fixed);
    }
  }

  void add_set_variable(const Node& node, const std::vector<int>& from, const std::vector<VariableNeeds>& needs,
                        const std::vector<FormMask>& fixed) {
    std::vector<FormSets> sets = candidate_sets(node, from, needs, fixed);
    int variable = out_.network.add_variable(int(sets.size()), node.id + 0.5);
    std::vector<Picoseconds> costs;
    for (int source : from)
      for (const FormSets& set : sets) costs.push_back(sets_cost(node, source, set));
    out_.network.add_pair(node.id, variable, std::move(costs));
    for (const VariableNeeds& need : needs) {
      std::vector<Picoseconds> allowed;
      for (const FormSets& set : sets)
        for (const auto& masks : need.by_value)
          allowed.push_back(holds(set.apart && need.late ? set.late : set.early, masks) ? 0 : forbidden);
      out_.network.add_pair(variable, need.variable, std::move(allowed));
    }
    out_.set_node.push_back(node.id);
    out_.sets.push_back(std::move(sets));
  }

  /// Sets for all consumers alike and, with a price on memory, pairs of sets for the forward phase and for what
  /// follows.
  std::vector<FormSets> candidate_sets(const Node& node, const std::vector<int>& from,
                                       const std::vector<VariableNeeds>& needs,
                                       const std::vector<FormMask>& fixed) const {
    std::set<FormMask> early(fixed.begin(), fixed.end()), late, all(fixed.begin(), fixed.end());
    for (const VariableNeeds& need : needs)
      for (const auto& masks : need.by_value) {
        (need.late ? late : early).insert(masks.begin(), masks.end());
        all.insert(masks.begin(), masks.end());
      }
    std::vector<FormSets> out;
    for (FormMask set : useful_sets(node, from, all))
      if (holds(set, fixed)) out.push_back({true, false, set, 0});
    bool may_part = priced() && node.kind != NodeKind::input && !early.empty() && !late.empty();
    if (!may_part) return out;
    std::vector<FormMask> late_sets = useful_sets(node, from, late);
    for (FormMask set : useful_sets(node, from, early))
      for (FormMask other : late_sets)
        if (holds(set, fixed) && (set | other) != 0) out.push_back({true, true, set, other});
    return out;
  }

  /// Sets of forms that no other set beats: one that meets the same needs and costs no more from any source.
  std::vector<FormMask> useful_sets(const Node& node, const std::vector<int>& from,
                                    const std::set<FormMask>& masks) const {
    FormMask useful = 0;
    for (FormMask mask : masks) useful |= mask;
    struct Candidate {
      FormMask set;
      std::vector<char> meets;
      std::vector<Picoseconds> costs;
    };
    std::vector<Candidate> candidates;
    for (FormMask set = useful;; set = (set - 1) & useful) {
      Candidate c{set, {}, {}};
      for (FormMask mask : masks) c.meets.push_back((mask & set) != 0);
      for (int source : from) c.costs.push_back(sets_cost(node, source, {true, false, set, 0}));
      candidates.push_back(std::move(c));
      if (set == 0) break;
    }
    auto beats = [&](const Candidate& a, const Candidate& b) {
      for (size_t m = 0; m < a.meets.size(); ++m)
        if (b.meets[m] && !a.meets[m]) return false;
      for (size_t s = 0; s < a.costs.size(); ++s)
        if (a.costs[s] > b.costs[s]) return false;
      return true;
    };
    auto order = [](const Candidate& a, const Candidate& b) {
      return std::pair(std::popcount(a.set), a.set) < std::pair(std::popcount(b.set), b.set);
    };
    std::sort(candidates.begin(), candidates.end(), order);
    std::vector<char> beaten(candidates.size(), 0);
    for (size_t b = candidates.size(); b-- > 0;)
      for (size_t a = 0; a < candidates.size() && !beaten[b]; ++a)
        beaten[b] = a != b && !beaten[a] && beats(candidates[a], candidates[b]);
    std::vector<FormMask> sets;
    for (size_t i = 0; i < candidates.size(); ++i)
      if (!beaten[i]) sets.push_back(candidates[i].set);
    return sets;
  }

  const Problem& problem_;
  const Program& program_;
  const Conversions& conversions_;
  const Shares& shares_;
  const SearchInput& input_;
  PlanNetwork out_;
};

}  // namespace

PlanNetwork build_network(const Problem& problem, const Conversions& conversions, const Shares& shares,
                          const SearchInput& input) {
  return NetworkBuilder(problem, conversions, shares, input).build();
}

Solution search(const Problem& problem, const Conversions& conversions, const Shares& shares, const SearchInput& input,
                const SearchLimits& limits) {
  PlanNetwork plan = build_network(problem, conversions, shares, input);
  Solution solution;
  solution.search = minimise(plan.network, limits);
  if (solution.search.assignment.empty()) return solution;
  const auto& assignment = solution.search.assignment;
  size_t nodes = problem.program.nodes.size();
  solution.choices.of.assign(assignment.begin(), assignment.begin() + nodes);
  if (!input.memory_price.empty()) {
    solution.choices.sets.resize(nodes);
    for (size_t s = 0; s < plan.sets.size(); ++s)
      solution.choices.sets[plan.set_node[s]] = plan.sets[s][assignment[nodes + s]];
  }
  solution.cost = total_cost(problem, conversions, shares, solution.choices);
  HETSYNTH_CHECK(!input.memory_price.empty() || solution.cost == solution.search.cost,
                 "the network and the cost model disagree on a plan");
  return solution;
}

}  // namespace hetsynth::synth
