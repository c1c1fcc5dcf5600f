// FlexFlow's search (Jia et al. 2019, arXiv 1807.05358) over the space of this planner: a Metropolis-Hastings walk from
// data parallelism, guided by the predicted time.
#pragma once
#include "synth/baselines/baselines.h"

namespace hetsynth::synth {

struct WalkOptions {
  int proposals = 20'000;
  uint64_t seed = 1;
};

/// The cheapest choices met. Every proposal gives an operation, or all operations of its kind, another option, or a
/// parameter another form; conversions are the cheapest ones each time. The same walk for the same options.
Choices walked_choices(const AtShares& at, const WalkOptions& options = {});

}  // namespace hetsynth::synth
