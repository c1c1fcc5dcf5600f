// What the numbers in a rank's memory are taken to be while two computations of them are compared: pseudo-random, and
// now and then such that comparisons come out either way.
#pragma once
#include <compare>
#include <optional>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::source {

/// One choice of the unknowns.
struct Sample {
  uint64_t seed = 0;
  bool positive = false;  ///< all reals positive: for logarithms and roots
  /// Reals grow with their position: what is rescaled by the largest so far meets larger ones.
  bool rising = false;
  bool together = false;  ///< all integers equal: what is scattered by them meets in one place, where nothing is missed
  bool exact = false;     ///< roundings to 16 bits count as nothing
  /// Reals of a tensor of n elements are smaller by the root of n: what is summed over very many elements weighs no
  /// more than a single number beside it, which would vanish in rounding.
  bool balanced = false;
  /// Reals are small: exponentials of sums of products of them are no larger than what else there is.
  bool small = false;
  /// On either side of what they are compared with: reals of many magnitudes, numbers that the program compares them
  /// with, and equal ones where it asks whether they are; and a step on either side of what schedules compare it with.
  bool edge = false;
  /// What many integers are, of those that are equal all: so that this place is looked up.
  std::optional<int64_t> place = {};
  bool operator==(const Sample&) const = default;
  /// The choices of a sequence in turn: with and without each property.
  static Sample number(uint64_t n) {
    return {.seed = n, .positive = n % 4 != 1, .rising = n % 4 == 2, .balanced = n % 4 == 3};
  }
  static constexpr uint64_t run_seed = 20240229;
};

class Unknowns {
 public:
  /// The arguments must outlive this.
  Unknowns(const Program& reference, const SpmdProgram& program);

  /// The element of a value at a row-major position in the logical tensor.
  double at(ValueId value, int64_t position, const Sample& sample) const;
  /// The number of the step.
  int64_t step(const Sample& sample) const;
  /// What the program asks of the value's elements.
  enum class Asks { nothing, order, equality };
  Asks asks(ValueId value) const { return asks_[size_t(value)]; }

 private:
  struct Bound {
    double at;
    bool equal;  ///< whether it is reached is asked for, not on which side of it something is
    auto operator<=>(const Bound&) const = default;
  };

  void note_comparisons(const Expr& e, const Node& node);
  Asks asked_of(NodeId node) const;
  int64_t integer(NodeId node, uint64_t bits, const Sample& sample) const;

  const Program& reference_;
  const SpmdProgram& program_;
  std::vector<int64_t> integer_range_;      ///< by node: integers are drawn below it
  std::vector<std::vector<Bound>> bounds_;  ///< by node: what its elements are compared with
  std::vector<bool> meets_;                 ///< by node: whether its elements equal others is asked
  std::vector<Asks> asks_;                  ///< by value
  std::vector<int64_t> steps_;
};

}  // namespace hetsynth::source
