// Groups of parameters that are trained in turn: an update takes effect in the steps of its group alone.
#pragma once
#include <cstdint>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// The steps in which a group of parameters is trained: of every `period` steps the one with number `first`, from 0,
/// and the `steps` - 1 behind it.
struct Alternation {
  int64_t first = 0, steps = 1, period = 1;
  bool always() const { return steps == period; }
};

/// Scalar: 1 in the steps of the group, else 0.
Tensor group_is_due(const Alternation& of, std::source_location where = std::source_location::current());

/// `next` if `due` is not 0, else `before`.
Tensor if_due(Operand due, Operand next, Operand before);

}  // namespace hetsynth
