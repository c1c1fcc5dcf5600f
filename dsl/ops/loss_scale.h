// Dynamic loss scaling as operators; `mixed_precision` and `minimize` put them together.
#pragma once
#include <source_location>
#include <vector>

#include "hetsynth/loss_scale.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

/// How many elements of all gradients together are not finite as float32: a scalar, so that every device takes the same
/// decision. Partial counts add up; there is one all-reduce however many gradients are sharded.
Tensor count_overflows(const std::vector<Tensor>& gradients,
                       std::source_location where = std::source_location::current());

/// `next` if nothing overflowed, else `before`; all elements alike.
Tensor unless_overflowed(Operand overflows, Operand next, Operand before);

/// Scalars of the training state: the scale, and for how many steps in a row nothing overflowed.
struct LossScaleState {
  Tensor scale, good_steps;
};
/// That after a step. The scale stays within [2^-126, 2^126], where float32 has all its digits.
LossScaleState next_loss_scale(const LossScaleState& now, Operand overflows, const DynamicLossScale& rule);

}  // namespace hetsynth
