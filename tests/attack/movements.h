// Movements of a draft's values: any, and those that bring a tensor to a placement.
#pragma once
#include <functional>

#include "tests/attack/draft.h"

namespace hetsynth::attack {

/// One movement drawn at random: mostly such as suit what the value is over an axis, now and then by another table,
/// dimension, reduction or root. The result, or -1 if the draft did not take it.
ValueId any_movement(Draft& draft, ValueId from);

/// A value of the tensor held as wanted: one there is, or one made by a short random walk from it. -1 if none is found.
/// `good`: which values count.
ValueId reached(
    Draft& draft, NodeId tensor, const Placements& wanted,
    const std::function<bool(ValueId)>& good = [](ValueId) { return true; });

}  // namespace hetsynth::attack
