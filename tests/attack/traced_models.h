// Models written in the DSL: each a whole step, traced once.
#pragma once
#include <vector>

#include "tests/attack/models.h"

namespace hetsynth::attack {

/// One model per sample of every operator of the list, its result being the new contents of a state.
const std::vector<Model>& operator_models();
/// Training steps of matrices, softmax and attention under several optimizers.
const std::vector<Model>& training_models();
/// Loops: carries that take over each other, that stand still, whose outputs are stacked, read behind the loop; cells
/// and layers of recurrent networks, forward and in training.
const std::vector<Model>& loop_models();

}  // namespace hetsynth::attack
