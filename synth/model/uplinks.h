// What racks' uplinks let through, where collectives run along an axis in all of its groups at once.
#pragma once
#include <utility>
#include <vector>

#include "dsl/cluster/cluster.h"

namespace hetsynth::synth {

/// A ring goes from host to host in the order of its devices and back to the first: it leaves a rack once for each run
/// of the rack's hosts that stand side by side in it, and enters it as often. In an all-to-all every device sends each
/// other one of its group an equal part of what it moves.
class Uplinks {
 public:
  /// `groups`: devices of each group, in ring order.
  Uplinks(const Cluster& cluster, const std::vector<std::vector<int>>& groups);

  /// What a ring over the group has of the slowest uplink that it passes; unlimited if it passes none.
  const Link& ring(size_t group) const { return rings_[group]; }

  /// What passes a rack's uplink in each direction, in an all-to-all of all groups.
  struct Exchange {
    double bytes_per_second = 0;
    std::vector<std::pair<int, double>> parts;  ///< by device: the part of what it moves
  };
  const std::vector<Exchange>& exchanges() const { return exchanges_; }

  /// Seconds of the rack that takes longest. `moved`: bytes that each device hands over, or gets.
  double exchange_seconds(const std::vector<double>& moved) const;

 private:
  std::vector<Link> rings_;
  std::vector<Exchange> exchanges_;
};

}  // namespace hetsynth::synth
