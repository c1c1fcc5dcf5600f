// One step of Adafactor as operators; `minimize` puts them together.
#pragma once
#include <optional>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Scalar 1 - t^-exponent, t counting steps from 1: how much of a second moment is kept (Shazeer and Stern 2018).
Tensor adafactor_decay(double exponent, std::source_location where = std::source_location::current());

/// Scalar min(0.01, 1 / sqrt(t)): the relative step size.
Tensor adafactor_relative_step(std::source_location where = std::source_location::current());

/// Second moments: v <- decay v + (1 - decay) mean of (scale g)^2 + epsilon over dimension `dim` of g, which v lacks;
/// elementwise, with v like g, if `dim` is not given.
Tensor adafactor_moment(Operand v, Operand gradient, Operand scale, Operand decay, double epsilon,
                        std::optional<int> dim = {});

/// scale g / sqrt(V): V is v itself, or rows x columns / mean of rows for the moments over the last two dimensions.
Tensor adafactor_direction(Operand gradient, Operand scale, Operand v);
Tensor adafactor_direction(Operand gradient, Operand scale, Operand rows, Operand columns);

/// Scalar: the root of the mean square of all elements.
Tensor root_mean_square(Operand x);

/// p <- p - rate max(least, rms(p)) / max(1, rms(direction) / clip) direction - rate decay p, all rates scalars.
Tensor adafactor_parameter(Operand p, Operand direction, Operand rate, Operand scale, double weight_decay);
/// The factor of the direction: max(least, rms of p) / max(1, rms of direction / clip).
Tensor adafactor_scale(Operand p, Operand direction, double least, double clip);

}  // namespace hetsynth
