// The gradient of a loop is a loop over the same turns in reverse order (Werbos 1990, back-propagation through time).
#pragma once
#include <vector>

#include "dsl/transform/backward.h"

namespace hetsynth {

/// What a loop contributes to the gradients of tensors outside of it, given the gradients that arrive at its stacks and
/// at what it leaves behind. Nodes of `end` and behind are no part of it. Differentiates each node of the body once:
/// - the gradient of a carry is carried the other way;
/// - what the body's gradient reads of the body is stacked by the loop and read back turn by turn;
/// - the gradient of a tensor that every turn reads whole is a carried sum, that of one read turn by turn is stacked.
std::vector<Contribution> loop_contributions(Trace& trace, int loop, NodeId end,
                                             const std::vector<Contribution>& arrived,
                                             const std::vector<bool>& depends);

}  // namespace hetsynth
