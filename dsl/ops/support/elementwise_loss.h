// Losses that are the mean of an elementwise function of predictions and targets.
#pragma once
#include <string>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {

/// Sum over all elements of `body` over prediction (input 0) and target (input 1), both of this rank.
PointwiseRule summed_loss(const std::string& tag, const Expr& body, int rank, CustomVjp vjp);

/// The sum by the rule for a rank, divided by the number of elements. Throws UserError unless both are f32 of one
/// shape.
Tensor mean_loss(const std::string& tag, const Operand& prediction, const Operand& target,
                 PointwiseRule (*rule)(int rank));

}  // namespace hetsynth
