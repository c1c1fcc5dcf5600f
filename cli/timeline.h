// A page to look at: what every device does during a step, as the cost model sees it.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/schedule/price.h"

namespace hetsynth::cli {

/// One self-contained HTML page: a row per device, a bar per instruction in proportion to its seconds, coloured by
/// phase, communication and waiting, with the tensor, the model line and the seconds of the bar under the pointer.
std::string timeline_page(const Plan& plan, const Program& reference, const std::vector<InstructionPrice>& prices);

}  // namespace hetsynth::cli
