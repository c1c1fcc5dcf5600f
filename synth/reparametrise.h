// Sequential tree-reweighted message passing (Kolmogorov 2006): shifts costs between neighbours until single values and
// pairs show by themselves what choosing them must cost. Gives a proven lower bound, prunes most values, and so makes
// exact elimination affordable where plain tables would explode.
#pragma once
#include <memory>
#include <vector>

#include "synth/network.h"
#include "synth/stop.h"

namespace hetsynth::synth {

/// An equivalent network: every assignment costs `bound` less than in the original, and no entry is negative.
struct Reparametrised {
  Network network;
  Picoseconds bound = 0;
  std::vector<int> decoded;  ///< an assignment read off the messages, improved by changing single variables; empty if
                             ///< all met were forbidden
};

/// Messages are passed in floating point, then rounded to whole picoseconds and applied exactly: rounding cannot
/// invalidate the bound. Variables with equal surroundings (those of inner repeated layers) share their messages at
/// first, as if the layers formed a ring, so that this start does not cost more with depth; then come sweeps over all
/// variables. Every pair must be arc consistent (`undominated_values`). The network must outlive this.
class Reparametrisation {
 public:
  Reparametrisation(const Network& network, const Stop& stop);
  ~Reparametrisation();
  /// So many sweeps over all variables; false if the bound hardly gains any more, or if stopped.
  bool improve(int sweeps);
  Reparametrised apply() const;

 private:
  struct Messages;
  std::unique_ptr<Messages> messages_;
};

/// Values whose least excess does not push a solution above `budget` (relative to the bound of a reparametrised
/// network), to a fixed point.
ValueLists values_within(const Network& reparametrised, Picoseconds budget);

}  // namespace hetsynth::synth
