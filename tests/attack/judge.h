// What a plan computes, held against the program: the yardstick of the attacker, which knows nothing of rules.
#pragma once
#include <cstdint>
#include <string>

#include "dsl/spmd/spmd.h"

namespace hetsynth::attack {

enum class Difference : uint8_t {
  none,
  results,  ///< loss or new contents differ
  word,     ///< these are right, but a value is not what the plan says
  form,     ///< at other sizes it is no plan: `shrink` does not keep its form
};

struct Judgement {
  Difference difference = Difference::none;
  std::string text;  ///< which tensor, where, both numbers
};

/// Executes the plan in float64 on `trials` sets of leaves: real numbers of both signs, positive ones, small integers.
/// Loss, all new contents, and every value by the plan's word on it are compared. Expects a plan without flaws.
Judgement judge(const Program& reference, const SpmdProgram& plan, uint64_t seed, int trials);

/// Executes the same instructions at other sizes, on other tables of the same form, `instances` times.
Judgement judge_elsewhere(const Program& reference, const SpmdProgram& plan, uint64_t seed, int instances);

}  // namespace hetsynth::attack
