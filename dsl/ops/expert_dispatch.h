// Tokens to the queues of their experts.
#pragma once
#include "dsl/ops/gating.h"

namespace hetsynth {

/// [G..., S, D] to [G..., experts, capacity, D]: the tokens that each expert is to work on, zeros in places that nobody
/// took. A product with a one-hot tensor [token, expert, place] in meaning, lookups in execution. With groups cut over
/// devices before it and experts after it, what lies between is an all-to-all.
Tensor expert_dispatch(Operand tokens, const Routing& routing);

}  // namespace hetsynth
