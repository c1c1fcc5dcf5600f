// The one contraction: products summed over letters that the result does not carry.
#pragma once
#include <string>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Einstein summation of two tensors, one letter per dimension: "bthd,bshd->bhts". Spaces do not count. Letters missing
/// from the result are summed. Throws UserError if the letters do not fit the shapes, or if a letter repeats within one
/// tensor.
Tensor einsum(const std::string& spec, Operand a, Operand b);

/// Computes the einsum of three tensors, "ab,bc,cd->ad", by two products. Of the three orders it takes the one with the
/// fewest multiplications.
Tensor einsum(const std::string& spec, Operand a, Operand b, Operand c);

}  // namespace hetsynth
