// Small reference programs to attack plans of: every kind of operator, products of several tensors, training steps with
// optimizer state, loops.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/program.h"
#include "tests/mutation/random_plans.h"

namespace hetsynth::attack {

using test::Random;

/// Uniform below n; 0 where there is nothing to choose from.
inline int64_t below(Random& random, int64_t n) { return n > 0 ? int64_t(random() % uint64_t(n)) : 0; }
/// True so many times in a hundred.
inline bool chance(Random& random, int percent) { return below(random, 100) < percent; }
template <class Items>
auto& any_of(Random& random, Items& items) {
  return items[size_t(below(random, int64_t(items.size())))];
}

struct Model {
  std::string kind;  ///< "chain", "operator softmax", "loop shift register"
  Program program;
};

/// A model of a kind drawn at random; models of the DSL are traced once per process and drawn from then on.
Model random_model(Random& random);

}  // namespace hetsynth::attack
