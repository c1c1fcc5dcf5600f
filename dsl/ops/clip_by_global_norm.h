// Gradient clipping.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// The scalar that is the Euclidean norm of all gradients taken together.
Tensor global_norm(const std::vector<Tensor>& gradients, std::source_location where = std::source_location::current());

/// The scalar min(1, limit / (n + 1e-6)), n being the Euclidean norm of all gradients taken together (Pascanu et al.
/// 2013; the small number is PyTorch's).
Tensor global_norm_scale(const std::vector<Tensor>& gradients, double limit,
                         std::source_location where = std::source_location::current());

/// The gradients times that scalar: their global norm is at most `limit`.
std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& gradients, double limit,
                                        std::source_location where = std::source_location::current());

}  // namespace hetsynth
