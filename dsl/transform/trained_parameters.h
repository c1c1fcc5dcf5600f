// Which parameters the optimizer trains.
#pragma once
#include <vector>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// The parameters of a traced model without those that the model (`.trainable = false`) or the setting "freeze" keeps
/// as they are. That setting is a regular expression (ECMAScript), which a name has to begin with: "h[0-9]+\." stands
/// for h0.w and h11.attention.b. Throws UserError if it is no regular expression, if no name begins with it, and if no
/// parameter is left.
std::vector<Tensor> trained_parameters(const Trace& trace);

}  // namespace hetsynth
