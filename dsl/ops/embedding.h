// Rows of a table.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// Rows of table [V, C] at int32 indices [...]: [..., C]. An index outside of [0, V) gives zeros. Throws UserError if
/// the indices are an input whose values reach beyond V.
Tensor embedding(Operand table, Operand indices);

}  // namespace hetsynth
