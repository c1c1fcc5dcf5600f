// Good plans after a small part of the work that a full search takes, for searches that may be ended before their time.
#pragma once
#include <vector>

#include "synth/schedule/candidate.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

/// Restrictions under which a search is quick, the quickest first: operations as data parallelism has them but for the
/// updates, parameters and states in any form (what ZeRO does lies within); then every operation split by the batch or
/// by a dimension that parameters have (pairs of column- and row-split weights, experts, vocabularies lie within).
std::vector<Pins> quick_restrictions(const Problem& problem);

/// Under each of them, shares by linear programming for the program found and search again, a few times. Empty where it
/// is of no use: without a time limit, under pins, for programs that are searched in a moment, on several axes.
Candidate anytime_fallback(const Problem& problem, Budget& budget);

}  // namespace hetsynth::synth
