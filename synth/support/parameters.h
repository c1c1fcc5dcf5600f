// Numbers that steer planning and that more than one room uses. What special cases are worth, measured by leaving them
// out, is in docs/planner-parameters.md; none of the numbers here was varied on its own yet.
#pragma once

namespace hetsynth::synth {

/// Rounds of search and linear program in turn from one start, if neither ends them before.
constexpr int most_alternations = 6;

/// Gap that is left in large networks on several axes, where one more search of everything takes many times as long as
/// all before.
constexpr double near_enough_if_large = 0.015;

/// Steps' time that a full memory costs at first, where nothing is known, and at most, when only memory is to count.
/// Much more would make sums overflow.
constexpr double first_memory_price = 0.3, dearest_memory_price = 30;

/// Bounds over all shares are worked out to this part of them, and bisections for them end after so many halvings.
constexpr double bound_precision = 1e-4;
constexpr int most_halvings = 60;

}  // namespace hetsynth::synth
