// Programs at the shares that suit them, whatever the memory or nearly so.
#pragma once
#include "synth/alternation/share_search.h"
#include "synth/shares/ratios.h"

namespace hetsynth::synth {

/// The shares that suit the relaxation's program. Empty if there are none, or the relaxation has no program.
Shares relaxed_shares(const Problem& problem, const ShareSearch& search, const Relaxation& relaxation,
                      const MemoryLimits& limits);
/// That program at these shares; empty as they are.
Candidate relaxed_program(const Problem& problem, const ShareSearch& search, const Relaxation& relaxation,
                          const MemoryLimits& limits);

/// From these shares: the cheapest program and the shares that suit it in turn, while that is faster. Empty if the
/// search was stopped before it met one.
Candidate fastest_from(const Problem& problem, Shares shares, const MemoryLimits& limits, ShareSearch* search,
                       Budget& budget);

}  // namespace hetsynth::synth
