// The fastest of a system's pipelines, by the prices, the schedule and the simulator that the planner's own go by.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "synth/baselines/peers/peers.h"
#include "synth/stages/peers/turned_step.h"
#include "synth/stages/stage_schedule.h"

namespace hetsynth::synth {

/// A plan of one group spread over equal groups of all devices, whose turns have no order yet.
struct StagedStep {
  std::shared_ptr<const TurnedStep> step;
  int stages = 1;
  std::shared_ptr<const Problem> problem;  ///< of all devices, in the order of the file
  SpmdProgram program;
  std::vector<PartCost> parts;
  double besides = 0;  ///< seconds of what runs once
};
/// `group`: on the mesh of a stage's devices.
StagedStep staged_step(const std::shared_ptr<const TurnedStep>& step, const Cluster& cluster, const SpmdProgram& group,
                       const StageCuts& cuts);

class PipelineContest {
 public:
  explicit PipelineContest(std::string name) { out_.name = std::move(name); }

  /// The stages take their turns in this order. Returns false for a pipeline that does not fit, which is passed over,
  /// as are those that cannot win.
  bool enter(const StagedStep& staged, const TurnOrder& order);
  /// All at once or in turns, without stages.
  void enter(const std::shared_ptr<const TurnedStep>& step, Plan plan);
  /// Why there is no plan, if there is none; the first reason is told.
  void refuse(const std::string& why);

  /// Pipelines are simulated: those with the shortest schedules.
  PeerPlan result() &&;

 private:
  struct Entry {
    StagedStep staged;
    std::vector<DevicePrediction> memory;
    double seconds = 0;
  };
  void take(const TurnedStep& step, int stages, Plan plan);

  PeerPlan out_;
  std::vector<Entry> entries_;  ///< the shortest first
};

}  // namespace hetsynth::synth
