// Tensors of a program that are the same by construction.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth {

/// By node: the first node that computes the same tensor, because it applies the same body over the same iteration
/// space to the same tensors, or because it hands its input on unchanged. A checkpointed part of a model is there
/// twice, once for the forward pass and once for the backward one: a plan may read either. The order of operands
/// counts, and so does the dtype, by which tensors are laid out.
std::vector<NodeId> same_tensors(const Program& program);

}  // namespace hetsynth
