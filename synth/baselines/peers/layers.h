// A training step cut into layers, as planners that decide layer by layer see it.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace hetsynth::synth {

/// By node: the layer it belongs to. A layer begins with each product with a parameter of the forward pass; gradients
/// of tensors belong to the layer whose saved values they read, those of parameters and optimizer states to that of the
/// parameter.
std::vector<int> layers_of(const Program& program);

/// Whether the operation sums products of a parameter with something else.
bool is_parameter_product(const Program& program, const Node& node);

}  // namespace hetsynth::synth
