// The functions generated programs call besides their own kernels: those that move or multiply arrays as the loops they
// stand for, those of one number as themselves.
#pragma once
#include <string>

#include "verify/source/syntax.h"

namespace hetsynth::source {

enum class Builtin : uint8_t {
  none,
  exp,
  log,
  sqrt,
  tanh,
  erf,
  sin,
  cos,
  floor,
  power,
  maximum,
  minimum,
  infinity,
  not_a_number,
  uniform,  ///< of (seed, stream, index, step)
  row_sum,  ///< of (first element, count)
  row_max,
};
Builtin builtin(const std::string& function);

/// Replaces calls of hetsynth_matmul, hetsynth_convolution, fill and copy by loops, everywhere in the function (calls
/// with another number of arguments stay), numbers the statements anew, and puts the Builtin into `slot` of all other
/// calls.
void spell_out(Function& function);

}  // namespace hetsynth::source
