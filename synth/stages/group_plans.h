// Plans of the whole step on one group of devices, of which every stage of a pipeline carries out its segment.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "synth/model/problem.h"
#include "synth/stages/device_groups.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_search.h"

namespace hetsynth::synth {

/// What is known of the program, for so many axes.
using AnalysisOfAxes = std::function<std::shared_ptr<const Analysis>(int axes)>;

struct GroupPlan {
  std::shared_ptr<const Analysis> analysis;
  SpmdProgram program;
};

/// Meshes of a group by their number of axes: one axis; and the first mesh of two axes, if there is any
/// (two_axis_meshes), which in a group of several hosts is that of hosts and the devices of each.
std::vector<Mesh> group_meshes(const Cluster& group);

/// Plans on a mesh of a group whose devices are alike, at even shares, however large memories are: the cheapest, and on
/// one axis that of data parallelism, if it is another. One device keeps and computes everything whole.
std::vector<GroupPlan> group_plans(const AnalysisOfAxes& analysis, const Cluster& group, const Mesh& mesh);

/// The step on groups that divide all work without loss and without communication, however large memories are: what its
/// divisions take by the formula, divisions take of any plan of such groups.
StageProblem ideal_stage_problem(const AnalysisOfAxes& analysis, const Cluster& cluster, const DeviceGroups& groups,
                                 const StagePositions& positions);

}  // namespace hetsynth::synth
