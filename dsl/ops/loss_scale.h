// Dynamic loss scaling as operators; `mixed_precision` and `minimize` put them together.
#pragma once
#include <source_location>
#include <vector>

#include "hetsynth/loss_scale.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

/// The sum of |x| over all elements of all gradients: a scalar that is no finite float32 if one of them is none, so
/// that every device takes the same decision. Parts add up; there is one all-reduce however many gradients are sharded.
/// A count of elements that are not finite would do as well, but it is 0 for all usual numbers, whatever tensor it is
/// of, so that the check of source could not tell such counts apart.
Tensor sum_of_magnitudes(const std::vector<Tensor>& gradients,
                         std::source_location where = std::source_location::current());

/// `next` if the magnitude is finite, else `before`; all elements alike.
Tensor unless_overflowed(Operand magnitude, Operand next, Operand before);

/// Scalars of the training state: the scale, and for how many steps in a row nothing overflowed.
struct LossScaleState {
  Tensor scale, good_steps;
};
/// That after a step. The scale stays within [2^-126, 2^126], where float32 has all its digits.
LossScaleState next_loss_scale(const LossScaleState& now, Operand magnitude, const DynamicLossScale& rule);

}  // namespace hetsynth
