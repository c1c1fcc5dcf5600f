// The one contraction: products summed over letters that the result does not carry.
#pragma once
#include <string>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Einstein summation of two tensors, one letter per dimension: "bthd,bshd->bhts". Spaces do not count. Letters missing
/// from the result are summed. Throws UserError if the letters do not fit the shapes, or if a letter repeats within one
/// tensor.
Tensor einsum(const std::string& spec, Operand a, Operand b);

/// The same of three tensors: "ab,bc,cd->ad". Two of them are multiplied first, those that make all multiplications
/// together the fewest.
Tensor einsum(const std::string& spec, Operand a, Operand b, Operand c);

}  // namespace hetsynth
