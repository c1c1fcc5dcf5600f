// Plans grown one instruction at a time: what the verifier's rules accept, in orders and mixtures that no planner
// makes.
#pragma once
#include <optional>

#include "tests/attack/rules.h"
#include "tests/attack/tables.h"

namespace hetsynth::attack {

struct Case {
  Model model;
  SpmdProgram plan;
  bool wild = false;  ///< an instruction stands in it that a rule refused, with the word of a textbook on its result
};

/// One plan of one model: nodes in order, each from any values that stand for its inputs, with movements at random
/// between them; at the end the loss is made whole and new contents are brought to where the old ones lie. Each value
/// is said to be held as the rule found it. Nothing where a node or a result could not be had in a few attempts.
/// `model` is of one of the kinds of random_model.
std::optional<Case> grow(Random& random, Model model, ProofCache& cache);

}  // namespace hetsynth::attack
