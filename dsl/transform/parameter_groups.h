// Which parameters follow which loss.
#pragma once
#include <vector>

#include "dsl/ir/trace.h"
#include "dsl/ops/support/alternation.h"

namespace hetsynth {

/// What one call of `minimize` trains, and in which steps.
struct TrainedGroup {
  std::vector<Tensor> parameters;  ///< in the order of the model
  Alternation steps;
};

/// Returns the groups in the order of the calls of `minimize`. Throws UserError as trained_parameters, if a group's
/// pattern is no regular expression, if a group has no parameter, and if a parameter that is trained is of no group or
/// of two.
std::vector<TrainedGroup> trained_groups(const Trace& trace);

}  // namespace hetsynth
