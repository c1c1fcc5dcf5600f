// The experts' answers back to the tokens.
#pragma once
#include "dsl/ops/gating.h"

namespace hetsynth {

/// [G..., experts, capacity, D] to [G..., S, D]: of every token the answers of its experts times their weights, added
/// up; zeros for a choice that found its queue full.
Tensor expert_combine(Operand answers, const Routing& routing);

}  // namespace hetsynth
