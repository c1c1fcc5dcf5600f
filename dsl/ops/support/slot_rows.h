// Rows that move between a sequence and numbered slots: what dispatch to experts and combination of their answers are
// made of. Meant as products with a one-hot matrix [token, slot], executed as lookups.
#pragma once
#include "dsl/ir/operator.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

/// Leading dimensions G (groups, any number) are common to all arguments. `slots` is i32 [G..., S]; a number outside of
/// [0, V) stands for no slot. `weights` is f32 [G..., S], or an undefined Tensor for 1 everywhere.
///
/// [G..., S, D] to [G..., V, D]: the sum of weight times row over the rows of each slot.
Tensor rows_to_slots(Tensor rows, Tensor slots, Tensor weights, int64_t slot_count);
/// [G..., V, D] to [G..., S, D]: weight times the row of the named slot; zeros where there is none.
Tensor rows_from_slots(Tensor table, Tensor slots, Tensor weights);

/// Samples of both and of their gradients, for the property tests.
std::vector<OperatorSample> rows_to_slots_samples();
std::vector<OperatorSample> rows_from_slots_samples();

}  // namespace hetsynth
