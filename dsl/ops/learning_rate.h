// The learning rate of a step.
#pragma once
#include "hetsynth/schedule.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Scalar: rate * min(1, (s + 1) / warmup_steps) * schedule, with s the number of the step from 0, as optimizer_step()
/// counts (dsl/ops/support/alternation.h).
Tensor learning_rate(double rate, int64_t warmup_steps, const Schedule& schedule,
                     std::source_location where = std::source_location::current());

}  // namespace hetsynth
