// What a step must cost at least on a mesh, however the work is shared out.
#pragma once
#include "synth/network/search.h"

namespace hetsynth::synth {

/// A bound for all plans of the mesh at all shares, memory not considered: the search with every instruction at the
/// shares that suit it alone. On one axis: synth/bounds/share_bound.h. On several, fractions of granules included:
/// - An operation divides so that all devices that take part end together. Along axes on which devices of one
///   coordinate are alike even shares are the best; where types vary along several axes, what an operation divides
///   counts as cut by the product of all its shares, which is less.
/// - Collectives are cheapest at even shares along their own axis; groups that hold different parts of a tensor end
///   together.
/// - Slices go by memory bandwidth.
class MeshBound {
 public:
  /// The problem must outlive this.
  MeshBound(const Problem& problem, const StopToken& stop);

  /// The bound after so many sweeps of message passing in all. A few are soon there, and often enough to see that a
  /// mesh cannot win.
  Picoseconds after(int sweeps);
  /// Nearly the best there is; message passing is cut off after a while. A bound of `enough` or more need not be told
  /// exactly.
  Relaxation relaxation(Picoseconds enough = forbidden);
  /// Of the network that is kept.
  int64_t value_count() const { return network_->network.value_count(); }

 private:
  const Problem& problem_;
  std::shared_ptr<const PlanNetwork> network_;
  Minimisation minimisation_;
  int sweeps_ = 0;
};

}  // namespace hetsynth::synth
