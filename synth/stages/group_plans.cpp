#include "synth/stages/group_plans.h"

#include <algorithm>
#include <utility>

#include "synth/baselines/baselines.h"
#include "synth/mesh/device_subsets.h"
#include "synth/mesh/meshes.h"
#include "synth/model/distinct_devices.h"
#include "synth/schedule/memory_budget.h"
#include "synth/stages/group_costs.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// The search leaves a gap of group_plan_tolerance, or what a few sweeps of message passing leave.
Choices cheapest_of_group(const AtShares& even) {
  SearchInput input;
  const Pins none;
  input.pins = &none;
  SearchLimits limits = limits_at_prices(even.problem, {});
  limits.tolerance = group_plan_tolerance;
  // On two axes that takes three fourths of the search: of Swin-Huge-32 in 4 turns on 2 x 8 devices 14 of 19 s.
  limits.narrows_in_vain = false;
  return search(even.problem, even.conversions, even.shares, input, limits).choices;
}

/// Returns by position what operators take at least on a group, in a turn or once a step, each in the way that suits
/// it.
GroupKind without_communication(const Problem& problem, const StagePositions& positions) {
  const Program& p = problem.program;
  const auto turns = double(p.loops[size_t(positions.loop)].turns);
  const AtShares even(problem, RatioRule::even);
  const std::vector<double> nothing(size_t(positions.count), 0);
  GroupKind out{.turn_seconds = nothing, .once_seconds = nothing};
  const DistinctDevices devices(problem.cost, even.shares);
  for (const Node& node : p.nodes) {
    if (node.leaf()) continue;
    Picoseconds least = forbidden;
    for (const Option& option : problem.rules.options[node.id])
      least = std::min(least, problem.cost.operator_cost(node.id, option, even.shares, devices));
    const auto at = size_t(std::max(0, positions.of[size_t(node.id)]));
    if (node.loop == positions.loop)
      out.turn_seconds[at] += to_seconds(least) / turns;
    else
      out.once_seconds[at] += to_seconds(least);
  }
  return out;
}

}  // namespace

std::vector<Mesh> group_meshes(const Cluster& group) {
  std::vector<Mesh> out{flat_mesh(group)};
  if (std::vector<Mesh> two_axes = two_axis_meshes(group); !two_axes.empty()) out.push_back(std::move(two_axes[0]));
  return out;
}

std::vector<GroupPlan> group_plans(const AnalysisOfAxes& analysis, const Cluster& group, const Mesh& mesh) {
  const Cluster devices = without_memory_limits(group);
  const bool alone = devices.devices.size() == 1, flat = mesh.axes.size() == 1;
  const Problem problem(analysis(alone ? 0 : int(mesh.axes.size())), devices, mesh);
  const AtShares even(problem, RatioRule::even);
  std::vector<Choices> ways{alone ? replicated_choices(problem) : cheapest_of_group(even)};
  if (!alone && flat)
    if (Choices by_samples = data_parallel_choices(problem); by_samples.of != ways[0].of)
      ways.push_back(std::move(by_samples));
  std::vector<GroupPlan> out;
  for (const Choices& way : ways) out.push_back({problem.analysis, even.program(way)});
  return out;
}

StageProblem ideal_stage_problem(const AnalysisOfAxes& analysis, const Cluster& cluster, const DeviceGroups& groups,
                                 const StagePositions& positions) {
  DeviceGroups first_devices = groups;
  first_devices.size = 1;
  for (std::vector<int>& group : first_devices.groups) group.resize(1);
  const Cluster one = restricted(cluster, first_devices.groups[0]);
  const GroupPlan alone = std::move(group_plans(analysis, one, flat_mesh(one))[0]);
  StageProblem out = stage_problem(alone.analysis, cluster, first_devices, alone.program, positions);
  for (size_t kind = 0; kind < out.kinds.size(); ++kind) {
    const Cluster group = without_memory_limits(restricted(cluster, groups.groups[size_t(groups.kinds[kind][0])]));
    const Problem problem(analysis(groups.size > 1 ? 1 : 0), group, flat_mesh(group));
    GroupKind least = without_communication(problem, positions);
    out.kinds[kind].turn_seconds = std::move(least.turn_seconds);
    out.kinds[kind].once_seconds = std::move(least.once_seconds);
  }
  std::ranges::fill(out.cut_bytes, 0);
  std::ranges::fill(out.cut_bytes_back, 0);
  out.shared_bytes = 0;
  out.counted = StageProblem::Counted::no_memory;
  return out;
}

}  // namespace hetsynth::synth
