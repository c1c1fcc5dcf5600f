// Programs and shares that come to fit into memory together.
#pragma once
#include <vector>

#include "synth/alternation/incumbent.h"

namespace hetsynth::synth {

/// A plan's program at the shares that linear programming finds for it under the memory limits, along the axes of
/// unequal coordinates. Whole granules can take more than the limits allow: then dimension classes of many granules
/// make room for those of few, along all axes, or it looks once more with a little less memory. Empty if there are no
/// such shares.
Candidate moved_to_fit(const Problem& problem, const Candidate& from, const std::vector<int>& unequal_axes);

/// From a plan that does not fit, again and again: the shares that suit its program where a memory too many has a price
/// (best_fractions), then the cheapest program at these shares where memory has the price that it has in that linear
/// program, on every device and at every moment that it is over. Nothing that fits being found the price rises. So
/// programs become thriftier while shares hardly move, as long as that is cheaper, and what shares a thrifty program
/// needs shows soon. (Benders' and Lagrange's view of one problem: a search knows prices, a linear program makes them.)
/// Keeps every plan met, those that make values twice included. `axis`: that shares are looked for along. Returns what
/// the thriftiest of them takes at most of a memory.
double follow_memory_prices(const Problem& problem, const Candidate& start, int axis, Incumbent* kept, Budget& budget);

}  // namespace hetsynth::synth
