// Programs of one attention, of heads of any size: what tests of its kernels run, on doubles and on GPUs.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/interpreter.h"

namespace hetsynth::testing_support {

struct Heads {
  int64_t queries = 40, keys = 40, features = 16, values = 16;
  bool causal = false, bias = false;
  double dropout = 0;
  int64_t group = 1, batch = 1;  ///< query heads per key head
  std::string precision = "bf16";
};
/// "40_queries_40_keys_..": a name for a test.
std::string text(const Heads& heads);
void PrintTo(const Heads& heads, std::ostream* out);

/// One step of training queries, keys and values of two (groups of) heads.
Program program_of(const Heads& heads);

/// Lengths that are multiples of tiles and not, shorter and longer than one; all sizes of heads that change how many
/// strips and tiles the kernels for tensor cores have, and whether operands stay in registers.
std::vector<Heads> heads_for_tensor_cores();

/// What results of attention may differ by, of 1 + their magnitude. The interpreter rounds weights to bf16 after they
/// are divided by their sum, blocks before that: either is off by 2^-9 of itself at most (of fp16 2^-11), and so is the
/// gradient by the scores, which is computed from the result. Sums of weights are 1, values and gradients around 1
/// to 3.
constexpr double bf16_attention_bound = 6 * 0x1p-8;
double attention_bound(const Heads& heads);

}  // namespace hetsynth::testing_support
