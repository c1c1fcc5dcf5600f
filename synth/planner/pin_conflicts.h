// Why no plan keeps to the pins.
#pragma once
#include "synth/model/pins.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Throws UserError with ExitCode::infeasible: names the pins that contradict each other, of which none can be left
/// out of the list, or says that time was too short. `free`: the problem without pins.
[[noreturn]] void throw_no_plan(const Problem& free, PlanPins pins);

}  // namespace hetsynth::synth
