// Mixed-radix indices: dimensions indexed by several factors as by the digits of a number.
#pragma once
#include <cstdint>

#include "dsl/ir/space.h"

namespace hetsynth {

/// Whether the terms are the digits of a mixed radix (outermost first) that covers the dimension exactly. A digit of
/// one value may have any stride.
bool are_digits(const Space& space, const DimIndex& index, int64_t extent);

/// Whether every element of a result of this shape is written exactly once: the factors that are not reduced are its
/// digits, each once, or (for factors taken apart by division and remainder) each digit of them once.
bool writes_once(const Space& space, const Shape& shape, int64_t turns = 1);

/// Elements of the dimension per step of its outermost digit.
int64_t outer_stride(const Space& space, const DimIndex& index);

}  // namespace hetsynth
