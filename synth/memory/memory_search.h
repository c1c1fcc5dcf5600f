// The cheapest plan that fits into memory, at fixed shares.
#pragma once
#include "synth/network/search.h"
#include "synth/schedule/candidate.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

struct MemorySearchResult {
  Candidate best;  ///< fits if any plan met does; else the one nearest to it; empty if stopped before any was met
  Picoseconds bound = 0;  ///< proven for all plans that fit at these shares
  bool beaten = false;    ///< nothing that fits here is faster than the plan to beat, as far as prices tell (no proof)
};

/// Lagrangian relaxation: memory has a price, by the device's limit, on the devices that a plan is over. With the price
/// lambda the search gives the least of time + lambda * fullness.
/// - First a plan at a moderate price; if it does not fit, the most thrifty one, with memory beyond all price: if that
///   does not fit there is no point in going on.
/// - Then the price at which a plan that fits and one that does not cost the same, again and again (Dantzig's cutting
///   planes in one dimension): ends after a few searches.
/// - There, with a price only on what is certainly taken, the least of both sums less lambda is a bound for all plans
///   that fit.
/// - Like layers all change at that one price: between a plan that fits and one that does not there are mixtures, of
///   which that with just enough thrifty parts is taken (synth/memory/plan_mixture.h).
/// `cheapest`: the plan without memory limits, which does not fit; on one axis perhaps that of likely values only, and
/// what is hardly dearer is then good enough. Gives up when the searches show that what fits is hardly cheaper than
/// `cost_to_beat`, if at all. `known`: a plan at these shares that fits.
MemorySearchResult search_within_memory(const Problem& problem, const Conversions& conversions,
                                        const Candidate& cheapest, Picoseconds cost_to_beat, Budget& budget,
                                        const Candidate* known = nullptr);

}  // namespace hetsynth::synth
