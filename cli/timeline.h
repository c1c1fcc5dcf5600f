// A page to look at: what every device does during a step as it unfolds.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/schedule/timeline.h"

namespace hetsynth::cli {

/// One self-contained HTML page as wide as its window: a row per device, in it a bar per instruction where the timeline
/// has it, computing above and communication below, coloured by phase, with the tensor, the model line and the seconds
/// of the bar under the pointer. `prices`: of the plan's instructions; `timeline`: the simulation of these.
std::string timeline_page(const Plan& plan, const Program& reference, const std::vector<InstructionPrice>& prices,
                          const Timeline& timeline);

}  // namespace hetsynth::cli
