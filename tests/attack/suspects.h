// What is unusual about a plan: patterns that a verifier once took for sound, by which failures are sorted.
#pragma once
#include <set>
#include <string>

#include "dsl/spmd/spmd.h"

namespace hetsynth::attack {

enum class Suspect : uint8_t {
  varying_summands,  ///< devices meet along an axis along which the summands of an open sum differ
  lone_axis,         ///< over an axis of one device something is cut that other axes cut, or cut by rows
  carry_behind,      ///< a carry's own value is read behind its loop
};
std::string_view name(Suspect suspect);

/// Those that the plan shows, by its instructions and its word on values.
std::set<Suspect> suspects_of(const Program& reference, const SpmdProgram& plan);

}  // namespace hetsynth::attack
