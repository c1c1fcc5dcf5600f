// The functions generated programs call besides their own kernels: those that move or multiply arrays as the loops they
// stand for, those of one number as themselves.
#pragma once
#include <string>

#include "dsl/ir/expr.h"
#include "verify/source/text/syntax.h"

namespace hetsynth::source {

enum class Builtin : uint8_t {
  none,
  arithmetic,  ///< `kind` of one or two numbers
  infinity,
  not_a_number,
  uniform,  ///< of (seed, stream, index, step)
  row_sum,  ///< of (first element, count)
  row_max,
  combined,  ///< kernels: the sum or maximum (`kind`) over every `spread`-th of `group` threads, 0: all of the block
};
struct Helper {
  Builtin builtin = Builtin::none;
  size_t arguments = 0;
  ExprKind kind = ExprKind::exp;
  int group = 0, spread = 1;
};
/// By its name; Builtin::none for all others.
const Helper& helper(const std::string& function);
/// Its number: 0 for Builtin::none. spell_out gives it to calls.
int helper_number(const std::string& function);
const Helper& helper(int number);

/// Replaces calls of hetsynth_matmul, hetsynth_matmul_then (hetsynth_device_matmul_then without its context),
/// hetsynth_convolution, fill and copy by loops, everywhere in the function (calls
/// with another number of arguments stay), numbers the statements anew, and puts the number of the helper
/// into `slot` of all other calls.
void spell_out(Function& function);

}  // namespace hetsynth::source
