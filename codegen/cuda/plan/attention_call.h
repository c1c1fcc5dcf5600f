// Attention that cuDNN carries out in place of generated kernels: which nests are plainly softmax(scale q k^T) v, with
// or without a causal mask, and their gradients; and what the calls of codegen/interface/abi.h say of them.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "codegen/cuda/plan/attention_workspace.h"
#include "codegen/passes/attention.h"

namespace hetsynth::codegen::cuda {

/// A tensor of a call as [batch, head, position, feature], features one behind the other.
struct AttentionTensor {
  ValueId value = -1;
  int64_t offset = 0;               ///< of its first element, in elements
  std::array<int64_t, 3> stride{};  ///< of batch, head and position
};

struct AttentionCall {
  bool backward = false;
  AttentionSizes sizes = {};
  double scale = 1;
  bool causal = false;
  AttentionTensor q, k, v;
  AttentionTensor o;                     ///< forward: what is written
  AttentionTensor o_gradient;            ///< backward
  AttentionTensor by_q, by_k, by_v;      ///< backward: the gradients
  bool keeps_statistics = false;         ///< forward: a gradient reads them
  ValueId maximum = -1;                  ///< forward: made by it, and read by its gradient alone
  std::vector<ValueId> not_needed = {};  ///< backward: what the nest reads and the call does not

  /// What it reads of the program's values, and what it makes.
  std::vector<ValueId> reads() const;
  std::vector<ValueId> writes() const;
};

/// By nest: the call that stands for it. A forward pass whose gradient cuDNN cannot do, and the other way round, stay
/// generated: the gradient reads what the forward call leaves. Asked for: operands of bf16, at multiples of 16 bytes,
/// features a multiple of 8 up to 128, no dropout, bias or other work on the scores than scale and mask, and a causal
/// mask from the first query on.
std::vector<std::optional<AttentionCall>> attention_calls(const std::vector<FusedAttention>& nests,
                                                          const LocalProgram& program, const Layouts& layouts,
                                                          const Program& reference);

}  // namespace hetsynth::codegen::cuda
