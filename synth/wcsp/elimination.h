// Bucket elimination (Dechter 1999) over a weighted constraint network: the cost to go that guides A*.
#pragma once
#include <vector>

#include "synth/support/stop_token.h"
#include "synth/wcsp/elimination_order.h"

namespace hetsynth::synth {

/// A cost over some variables, as a table in the order of its scope, the last variable varying fastest.
struct CostFunction {
  std::vector<int> scope;
  int table = -1;
};

/// One variable's bucket: the functions that mention it when it is eliminated, and what is left of them without it.
struct Bucket {
  int variable = -1;
  std::vector<CostFunction> functions;
  Picoseconds shift = 0;  ///< what the messages' tables lost to the constant
  std::vector<CostFunction>
      messages;  ///< one if exact; of an oversized bucket one per mini-bucket, a lower bound together
};

struct Elimination {
  std::vector<Bucket> buckets;  ///< in the order of elimination
  Picoseconds constant =
      0;  ///< with nothing assigned: the optimum if exact, else a lower bound; `forbidden` if there is no solution
  bool exact = true;
  bool complete = true;  ///< false: stopped; nothing can be said
  int64_t reused = 0;    ///< buckets found among earlier ones with equal tables
};

/// Eliminates in the given order. Buckets with equal tables are computed once, so that repeated layers cost next to
/// nothing. A variable with a single value is put into its neighbours' costs. A joint table above `table_limit` entries
/// is split into mini-buckets.
Elimination eliminate(const Network& network, const EliminationOrder& order, double table_limit, const StopToken& stop);

}  // namespace hetsynth::synth
