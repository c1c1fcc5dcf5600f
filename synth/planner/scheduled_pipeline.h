// A pipeline of given stages with an order of its turns, so that every stage fits into memory.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "synth/model/problem.h"
#include "synth/planner/pipelines.h"
#include "synth/schedule/price.h"

namespace hetsynth::synth {

struct Pipeline {
  std::shared_ptr<const Program> step;  ///< in turns
  std::shared_ptr<const Analysis> analysis;
  int64_t turns = 1;
  int group_size = 1;
  Cluster ranks;
  SpmdProgram program;
  std::vector<int> under_way = {};  ///< by stage: how many turns it may have begun and not ended
  std::vector<DevicePrediction> memory = {};
  double seconds = 0;  ///< by its schedule
  BusiestDevice busiest = {};
  bool short_of_memory = false;  ///< so that fewer turns are under way than would be fastest, or values are made again
  int stages() const { return stage_count(program); }
};

/// What a stage does that is short of memory: it begins its turns later, and waits for others, or it makes values of
/// its forward passes again for its backward passes, just as many as it needs to (synth/memory/recompute.h), and begins
/// turns later if that is not enough.
enum class ShortStage : uint8_t { waits, recomputes };

/// Gives `staged`, whose turns have no order, no memory and no seconds yet, all of these. Returns nothing if it does
/// not fit; `unfit`, if given, then becomes the pipeline that lacks least memory of itself and what it was.
std::optional<Pipeline> scheduled(Pipeline staged, ShortStage way, std::optional<UnfitPipeline>* unfit = nullptr);

}  // namespace hetsynth::synth
