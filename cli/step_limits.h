// What the time of a step goes into on every device, what limits the plan, and why it has so many turns and stages.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::cli {

/// Seconds of a step on a device, which add up to the step.
struct StepParts {
  double computing = 0;
  double made_again = 0;     ///< computing that is repeated, as memory is short
  double communicating = 0;  ///< beside no computing
  double waiting = 0;        ///< for other devices: a bubble
  double busy() const { return computing + made_again + communicating; }
  double step() const { return busy() + waiting; }
};

/// Returns the parts by rank. `prices`: of the plan's instructions; `timeline`: the step as it unfolds with these.
std::vector<StepParts> parts_of_step(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                                     const Timeline& timeline);

/// Waiting of all devices as a part of all their time.
double waiting_share(const std::vector<StepParts>& parts);

/// A line per device, those that are alike in one, with its parts in per cent of the step; and one of all devices.
std::string parts_text(const Plan& plan, const std::vector<StepParts>& parts);
/// What limits the plan, in one sentence: what the busiest device spends most of the step with, and the rest of it.
std::string limit_text(const Plan& plan, const std::vector<StepParts>& parts);
/// Why the step is taken in so many turns and stages: what others would take more, and of what. Empty where their
/// number was no choice.
std::string why_turns_text(const Prediction& prediction);

nlohmann::ordered_json limits_json(const Plan& plan, const std::vector<StepParts>& parts);
nlohmann::ordered_json turns_json(const Prediction& prediction);

}  // namespace hetsynth::cli
