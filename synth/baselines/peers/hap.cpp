#include "synth/baselines/peers/hap.h"

#include <algorithm>
#include <set>

#include "synth/baselines/peers/layers.h"
#include "synth/schedule/memory_budget.h"
#include "synth/shares/ratios.h"

namespace hetsynth::synth {
namespace {

constexpr int most_rounds = 4;

/// Classes of output features and experts: of products with a parameter, what indexes parameter and result.
std::set<int> feature_classes(const Problem& problem) {
  std::set<int> classes;
  for (const Node& node : problem.program.nodes) {
    if (node.phase != Phase::forward || !is_parameter_product(problem.program, node)) continue;
    for (size_t f = 0; f < node.space.factors.size(); ++f) {
      bool in_parameter = false;
      for (size_t j = 0; j < node.inputs.size(); ++j)
        in_parameter = in_parameter || (problem.program[node.inputs[j]].kind == NodeKind::parameter &&
                                        mentions_factor(node.space.inputs[j], int(f)));
      if (in_parameter && mentions_factor(node.space.output, int(f)))
        classes.insert(problem.classes.factors[node.id][f]);
    }
  }
  classes.erase(-1);
  return classes;
}

/// Operators inside of an attention: one opaque node for HAP.
std::set<NodeId> attention_nodes(const Program& program) {
  std::set<NodeId> nodes;
  for (const Attention& a : find_attention(program)) {
    for (NodeId node : a.hidden()) nodes.insert(node);
    for (const auto* list : {&a.products, &a.sums}) nodes.insert(list->begin(), list->end());
    nodes.insert({a.mixed, a.maximum, a.total, a.dot});
  }
  return nodes;
}

class HapRules {
 public:
  explicit HapRules(const Problem& problem)
      : problem_(problem),
        batch_(batch_class(problem)),
        features_(feature_classes(problem)),
        attention_(attention_nodes(problem.program)) {}

  Pins forward() const {
    Pins pins;
    for (const Node& node : problem_.program.nodes) {
      if (node.leaf()) continue;
      const bool first = node.phase == Phase::forward;
      pins[node.id] = allowed(node, [&](int split, bool sum) {
        return split == batch_ || (features_.count(split) && !attention_.count(node.id) && !(first && sum));
      });
    }
    return pins;
  }

  /// The forward pass as chosen; gradients cut what an operator that meets their saved operands cut.
  Pins backward(const Choices& chosen) const {
    Pins pins;
    for (const Node& node : problem_.program.nodes) {
      if (node.leaf()) continue;
      if (node.phase == Phase::forward) {
        pins[node.id] = {chosen[node.id]};
        continue;
      }
      if (node.phase == Phase::update) continue;
      std::set<int> cut{batch_};
      for (NodeId input : node.inputs)
        for (NodeId user : problem_.consumers[input])
          if (problem_.program[user].phase == Phase::forward) cut.insert(split_class(user, chosen[user]));
      pins[node.id] = allowed(node, [&](int split, bool) { return cut.count(split) > 0; });
    }
    return pins;
  }

  /// States are cut as their parameter is: the optimizer is no part of HAP's program.
  void keep_states(const Choices& chosen, Pins* pins) const {
    const Program& program = problem_.program;
    std::vector<int> layer = layers_of(program);
    for (const Node& node : program.nodes) {
      if (node.kind != NodeKind::state) continue;
      for (const Node& other : program.nodes)
        if (other.kind == NodeKind::parameter && node.name.starts_with(other.name + "."))
          (*pins)[node.id] = {
              std::max(0, problem_.rules.form_index(node.id, problem_.rules.forms[other.id][chosen[other.id]]))};
    }
  }

 private:
  int split_class(NodeId node, int choice) const {
    int factor = problem_.rules.options[node][choice].factor[0];
    return factor < 0 ? -1 : problem_.classes.factors[node][factor];
  }

  template <typename Allows>
  std::vector<int> allowed(const Node& node, const Allows& allows) const {
    std::vector<int> out;
    const auto& options = problem_.rules.options[node.id];
    for (int i = 0; i < int(options.size()); ++i) {
      int factor = options[i].factor[0];
      if (factor < 0 ||
          allows(problem_.classes.factors[node.id][factor], node.space.factors[factor].kind != FactorKind::parallel))
        out.push_back(i);
    }
    return out;
  }

  const Problem& problem_;
  const int batch_;
  const std::set<int> features_;
  const std::set<NodeId> attention_;
};

}  // namespace

std::optional<Plan> hap_plan(const Problem& problem) {
  HapRules rules(problem);
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  std::optional<Plan> best;
  std::set<Shares> seen;
  for (int round = 0; round < most_rounds && seen.insert(shares).second; ++round) {
    AtShares at(problem, fractions_of(problem, RatioRule::proportional), shares);
    Choices forward = at.cheapest(rules.forward());
    if (forward.empty()) break;
    Pins pins = rules.backward(forward);
    rules.keep_states(forward, &pins);
    Choices choices = at.cheapest(pins);
    if (choices.empty()) break;
    Plan plan = assemble(problem, at.conversions, at.shares, choices, at.fractions);
    if (!best || plan.prediction.objective_seconds < best->prediction.objective_seconds) best = plan;
    std::vector<CostTerm> terms = cost_terms(problem, at.conversions, choices);
    if (!refine_shares(problem, terms, plan.program, {0}, &shares)) break;
  }
  if (best) check_memory(problem, best->prediction, "HAP's plan");
  return best;
}

}  // namespace hetsynth::synth
