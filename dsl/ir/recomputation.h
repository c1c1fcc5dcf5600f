// Checkpointed parts of a model: their values are made again for the backward pass (checkpoint in model.h).
#pragma once
#include <map>
#include <set>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// Makes the values of checkpointed regions again, each when the backward pass first comes to it.
class Recomputation {
 public:
  explicit Recomputation(Trace& trace) : trace_(trace) {}

  /// The region's number, -1 if the node is in none.
  int region_of(NodeId node) const;
  void make_again(int region);
  /// Lets the nodes from `first` on, emitted for a gradient inside of the region, read what was made again, and loops
  /// of the region go on as their copies.
  void redirect(NodeId first, int region);

 private:
  NodeId now(NodeId node, int region) const;

  Trace& trace_;
  std::set<int> made_;
  std::map<NodeId, NodeId> again_;
  std::map<int, int> again_loop_;
};

}  // namespace hetsynth
