// Why a plan is as it is: where its time goes, what every collective is for, and what the plans that people write by
// hand lose against it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/schedule/memory.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::cli {

/// Seconds of a step as it unfolds, and what its instructions add up to, each as long as on its slowest device.
struct StepTotals {
  double step = 0;
  double computing = 0;
  double communicating = 0;
};
StepTotals totals(const std::vector<InstructionPrice>& prices, double step);

/// A plan that was not taken.
struct Alternative {
  std::string name;
  std::optional<StepTotals> totals;  ///< none: it cannot run
  std::string why_not;               ///< then: the reason
};

/// The other plans that planning found, as the plan remembers them, and those people would write by hand, on all
/// devices of the cluster, in the same cost model: the fastest first, those that cannot run last.
std::vector<Alternative> alternatives(const Plan& plan, const Program& reference, const Cluster& cluster);

struct Explanation {
  const Plan& plan;
  const Program& reference;
  std::vector<InstructionPrice> prices;
  std::vector<Alternative> others;
  Timeline timeline;                    ///< the step as it unfolds; spans of each turn's, where turns overlap
  std::vector<HiddenPart> hidden;       ///< by instruction of the plan: of all turns
  std::vector<MemoryBreakdown> memory;  ///< by rank
  std::vector<double> ring_seconds;     ///< by instruction, as on_one_ring gives them
};

/// What every hierarchical collective would take on one ring over its group, in the ring's cheapest realisation on this
/// cluster, an all-to-all in messages between all devices of it; 0 for all other instructions.
std::vector<double> on_one_ring(const Plan& plan, const Program& reference, const Cluster& cluster);

/// `lines`: how many operators and collectives are listed, the dearest first; 0: all.
std::string explanation_text(const Explanation& explanation, int lines);
std::string explanation_json(const Explanation& explanation);

}  // namespace hetsynth::cli
