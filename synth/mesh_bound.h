// What a step must cost at least on a mesh of several axes, however the work is shared out. (On one axis:
// synth/share_bound.h.)
#pragma once
#include "synth/search.h"

namespace hetsynth::synth {

/// A bound for all plans of the mesh at all shares, memory not considered: the search with every instruction at the
/// shares that suit it alone, fractions of granules included.
/// - An operation divides so that all devices that take part end together. Along axes on which devices of one
///   coordinate are alike even shares are the best; where types vary along several axes, what an operation divides
///   counts as cut by the product of all its shares, which is less.
/// - Collectives are cheapest at even shares along their own axis; groups that hold different parts of a tensor end
///   together.
/// - Slices go by memory bandwidth.
class MeshBound {
 public:
  /// The problem must outlive this.
  MeshBound(const Problem& problem, const Stop& stop);

  /// Soon there, and often enough to see that a mesh cannot win.
  Picoseconds at_once();
  /// Nearly the best there is; message passing is cut off after a while. A bound of `enough` or more need not be told
  /// exactly.
  Relaxation relaxation(Picoseconds enough = forbidden);

 private:
  const Problem& problem_;
  std::shared_ptr<const PlanNetwork> network_;
  Minimisation minimisation_;
};

}  // namespace hetsynth::synth
