#include "tests/runtime/plans.h"

#include <random>

#include "dsl/base/error.h"
#include "synth/baselines/baselines.h"

namespace hetsynth::testing {

using namespace hetsynth::synth;  // NOLINT: the planner's inner functions

Cluster cpu_cluster(const std::vector<double>& speeds) {
  Cluster cluster = local_cluster(static_cast<int>(speeds.size()));
  for (size_t i = 0; i < speeds.size(); ++i) cluster.devices[i].declared = {speeds[i] * 1e9, speeds[i] * 1e9};
  for (Device& device : cluster.devices) device.measured = {};
  return cluster;
}

namespace {

/// A change is kept if all needs can still be met.
bool possible(const Problem& problem, const Conversions& conversions, const Shares& shares, const Choices& choices) {
  return total_cost(problem, conversions, shares, choices) < forbidden;
}

}  // namespace

Plan split_plan(const Program& reference, const Cluster& cluster, const std::string& leaf, int dim,
                const std::vector<double>& fractions) {
  const Problem problem(reference, cluster);
  const Shares shares = common_shares(problem.classes, {fractions});
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  int wanted = -1;
  for (const Node& node : reference.nodes) {
    if (node.leaf() && node.name == leaf)
      wanted = problem.classes.dims[static_cast<size_t>(node.id)][static_cast<size_t>(dim)];
  }
  HETSYNTH_CHECK(wanted >= 0, "dimension of " + leaf + " can be cut");
  Choices choices{std::vector<int>(reference.nodes.size(), 0), {}};
  for (const Node& node : reference.nodes) {
    const auto id = static_cast<size_t>(node.id);
    const int before = choices.of[id];
    if (node.leaf()) {
      for (size_t d = 0; d < node.type.shape.size(); ++d) {
        if (problem.classes.dims[id][d] == wanted)
          choices.of[id] =
              problem.rules.form_index(node.id, {{AxisForm{AxisForm::Kind::sharded, static_cast<int>(d)}}});
      }
    } else {
      const auto& options = problem.rules.options[id];
      for (size_t i = 0; i < options.size(); ++i) {
        const int factor = options[i].factor[0];
        if (factor >= 0 && problem.classes.factors[id][static_cast<size_t>(factor)] == wanted)
          choices.of[id] = static_cast<int>(i);
      }
    }
    if (!possible(problem, conversions, shares, choices)) choices.of[id] = before;
  }
  return assemble(problem, conversions, shares, choices, {fractions});
}

Plan random_plan(const Program& reference, const Cluster& cluster, const std::vector<double>& fractions,
                 uint64_t seed) {
  const Problem problem(reference, cluster);
  const Shares shares = common_shares(problem.classes, {fractions});
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  std::mt19937_64 random(seed);
  Choices choices{std::vector<int>(reference.nodes.size(), 0), {}};
  for (const Node& node : reference.nodes) {
    const auto id = static_cast<size_t>(node.id);
    size_t count = problem.rules.options[id].size();
    if (node.leaf()) {
      count = 0;
      for (const Form& form : problem.rules.forms[id]) count += !form.partial();
    }
    if (count == 0) continue;
    const int before = choices.of[id];
    choices.of[id] = static_cast<int>(random() % count);
    if (!possible(problem, conversions, shares, choices)) choices.of[id] = before;
  }
  return assemble(problem, conversions, shares, choices, {fractions});
}

}  // namespace hetsynth::testing
