// Plans whose devices take the step in stages: a pipeline of groups of devices, each with a segment of the model.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "synth/planner/synthesize.h"

namespace hetsynth {

/// A step in turns as a pipeline takes it.
struct PipelinePlan {
  Plan plan;
  Program program;  ///< the step in turns that the plan is of
  int64_t turns = 1;
  std::string devices;  ///< by name, as in Trial
};

/// What the device that is busy longest computes, and what it communicates beside no computing.
struct BusiestDevice {
  double compute_seconds = 0, communication_seconds = 0;
};
BusiestDevice busiest_device(const std::vector<DevicePrediction>& devices);

struct PipelineOptions {
  /// Fixed: so many stages, so many turns; otherwise the planner chooses.
  std::optional<int> stages = {};
  std::optional<int64_t> turns = {};
  bool recompute = true;  ///< stages may make values again where memory is short
  double to_beat = 0;     ///< a step that is to be shortened; 0: there is none
  /// Asked between two sizes of groups: whether to make do with what was found so far.
  std::function<bool()> stop = [] { return false; };
};

/// A pipeline that does not fit even with one turn under way on the stage that is short of memory.
struct UnfitPipeline {
  int64_t turns = 1;
  int stage = 0;
  std::string device;            ///< the fullest of the stage
  int64_t bytes = 0, limit = 0;  ///< what it needs, and what a plan may fill of its memory
  double overfull() const { return double(bytes) / double(limit); }
};

/// The pipeline that lacks least of the memory, of the fastest of each size of groups and number of turns; nothing if
/// there is none, however large memories are.
std::optional<UnfitPipeline> nearest_to_fitting(const Program& whole, const Cluster& cluster,
                                                const PipelineOptions& options);

/// The fastest pipeline that was found, and what each number of turns and size of groups came to; no plan if none is
/// faster than `to_beat`, or if the step cannot be taken in turns. For each size of groups and number of turns: a plan
/// of one group, cuts and groups by dynamic programming (synth/stages/stage_search.h), and the best divisions as
/// programs, with a schedule, simulated and held against every device's memory. Where the stages are fixed and none
/// fits so, stages whose turns wait for one another are tried.
std::optional<PipelinePlan> best_pipeline(const Program& whole, const Cluster& cluster, const PipelineOptions& options,
                                          std::vector<TurnTrial>* tried);

}  // namespace hetsynth
