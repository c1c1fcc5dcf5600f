// Names for the nodes that the model's file gives none.
#pragma once
#include "dsl/ir/program.h"

namespace hetsynth {

/// Unnamed nodes are called after the variable they flow into: "h.einsum"; repeated names gain a number, but for those
/// of parameters and states.
void complete_names(Program& program);

}  // namespace hetsynth
