// What a model computes when it is not trained: its loss, and nothing that training needs.
#pragma once
#include <string_view>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// Names of the outputs by which an evaluation gives the two parts of Loss{total, count}, so that the parts of several
/// batches can be added up before they are divided. A loss that is a mean has neither.
inline constexpr std::string_view loss_total_output = "loss.total", loss_count_output = "loss.count";

/// The forward pass of a traced evaluation (dsl/ir/evaluation.h): the loss, its parts, metrics, and no updates. The
/// trace has a loss.
Program evaluation_program(Trace& trace);

}  // namespace hetsynth
