// Iteration spaces that many operators begin with.
#pragma once
#include "dsl/ir/space.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// A space of one parallel factor "iD" per dimension D of the result, which indexes the result and nothing else yet:
/// what is left to the operator are its inputs, and the factors it reduces.
Space space_of_result(const TensorType& result);

}  // namespace hetsynth
