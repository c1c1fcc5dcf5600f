// What attention costs when it runs block by block: scores take no memory and no traffic, hidden blocks are skipped,
// and the gradient makes the weights a second time.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "dsl/ir/attention.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::synth {

/// What a node is in attention.
enum class AttentionPart : uint8_t {
  none,
  forward_block,   ///< scores-shaped, of the forward pass
  statistic,       ///< of a row: maximum, sum
  mixed,           ///< weights times values
  gradient_block,  ///< scores-shaped, of the gradient
  product,         ///< gradient that blocks are added up to
};

class AttentionCost {
 public:
  explicit AttentionCost(const Program& program);

  const std::vector<Attention>& found() const { return found_; }
  size_t node_count() const { return part_.size(); }
  AttentionPart part(NodeId node) const { return part_[size_t(node)]; }
  /// The one found that a node has a part in; -1: none.
  int attention(NodeId node) const { return attention_[size_t(node)]; }
  /// Whether an operator that reads blocks, split by this factor, runs over a part of what it reads of them. A gradient
  /// may be of some features only; the result has all of them.
  bool splits_blocks(NodeId node, int factor) const { return (own_factors_[size_t(node)] >> factor & 1) == 0; }
  /// Equal for nodes that play the same part; 0: none.
  int role(NodeId node) const { return role_[size_t(node)]; }
  /// Whether a tensor exists only for a block of queries and keys at a time.
  bool in_blocks(NodeId node) const { return of(node).in_blocks; }
  /// The same on cuda devices.
  bool in_kernels(NodeId node) const { return in_kernels_[size_t(node)] != 0; }
  /// Whether a block of the forward pass is stored on cuda devices for a gradient that has no kernel: one that it
  /// reads, or the product that all are made from.
  bool stored_for_gradient(NodeId node) const { return stored_for_gradient_[size_t(node)] != 0; }
  /// Floating-point operations of an operator, given those of its plain loop.
  double flops(NodeId node, double plain) const { return plain * of(node).share + of(node).again; }
  /// The operator's factor that indexes keys: split by it, softmax is taken apart over devices and blocks are stored.
  /// -1: none.
  int column_factor(NodeId node) const { return of(node).column_factor; }

 private:
  struct Role {
    bool in_blocks = false;
    double share = 1;  ///< of the plain operations that are done
    double again = 0;  ///< operations done again for it
    int column_factor = -1;
    auto operator<=>(const Role&) const = default;
  };
  const Role& of(NodeId node) const { return roles_[size_t(role_[size_t(node)])]; }

  std::vector<Attention> found_;
  std::vector<AttentionPart> part_;  ///< by node
  std::vector<int> attention_;       ///< by node
  std::vector<char> in_kernels_;     ///< by node
  std::vector<char> stored_for_gradient_;
  std::vector<uint64_t> own_factors_;  ///< by node: of products, a bit for each factor that indexes no scores
  std::vector<Role> roles_;            ///< the first is that of nodes outside of attention
  std::vector<int> role_;              ///< by node
};

}  // namespace hetsynth::synth
