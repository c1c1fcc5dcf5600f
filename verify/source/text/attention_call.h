// Attention by cuDNN as the loops it stands for (codegen/interface/abi.h, without the context): weights are rounded to
// bf16 where they are multiplied, and so are the gradients by the scores, as the program rounds them. That cuDNN rounds
// results too, and adds up in blocks, is not followed.
#pragma once
#include <map>
#include <vector>

#include "verify/source/text/syntax.h"

namespace hetsynth::source {

/// Places of arguments. The gradient's follow those of the forward call.
struct AttentionArguments {
  enum Place : size_t { sizes, strides, scale, causal, q, k, v, o, statistics };
  enum Forward : size_t { workspace = 9, workspace_bytes, count };
  enum Gradient : size_t { o_gradient = 9, q_gradient, k_gradient, v_gradient, its_workspace, its_bytes, its_count };
};

/// Replaces the call in the statement. Calls whose sizes or strides are no constant tables stay as they are. `tables`:
/// constant arrays of the function, by slot.
void spell_attention(Statement& call, Function& function, const std::map<int, std::vector<int64_t>>& tables);

}  // namespace hetsynth::source
