// A rank's communicator: calls are carried out at once, or, between `begin` and `end`, together and on a thread of
// their own while the rank computes.
#pragma once
#include <memory>

#include "runtime/collectives/exchange.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {

/// When calls that the rank does not wait for at once are carried out.
enum class Overlap {
  none,   ///< before the rank goes on, the last of those that belong together with all of them
  beside  ///< on a thread of their own, in the order of the calls
};

/// `duty`: the rank's share of a core. `state` must outlive it.
std::unique_ptr<Communicator> rank_communicator(std::unique_ptr<Exchange> exchange, double duty, RunState& state,
                                                Overlap overlap);

}  // namespace hetsynth
