// Rotary position embedding.
#pragma once
#include "hetsynth/tensor.h"

namespace hetsynth {

/// How features form the pairs that are rotated.
enum class RotaryPairs {
  halves,    ///< feature i with i + width / 2, as in GPT-NeoX and LLaMA checkpoints of Hugging Face
  adjacent,  ///< feature 2 i with 2 i + 1, as in the paper
};

/// Turns pair i of the last dimension by the angle position * base^(-2 i / width) (Su et al. 2021), where position is
/// the global index along dimension `position_dim`. Throws UserError if the width is odd or is the position itself.
Tensor rotary(Operand x, int position_dim, double base = 10000, RotaryPairs pairs = RotaryPairs::halves);

}  // namespace hetsynth
