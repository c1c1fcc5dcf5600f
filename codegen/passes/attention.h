// The stage `fuse attention`: attention whose operators all run over one part on this rank becomes one nest of blocks,
// in which scores exist for a block of queries and keys at a time (online softmax: Milakov and Gimelshein 2018; Dao et
// al. 2022). The forward pass keeps a maximum and a sum per row; the backward pass makes the weights again from them.
#pragma once
#include <optional>
#include <vector>

#include "codegen/passes/layout.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::codegen {

/// One nest. Values are results of operators of the local program; those of the lists `scores`, `elements`,
/// `exponential`, `after` and `weights` exist only block by block.
struct FusedAttention {
  bool backward = false;
  Shape shape;                     ///< of a whole scores-shaped tensor
  std::vector<Range> ranges;       ///< what this rank computes of it
  std::vector<std::string> names;  ///< of its dimensions
  int row = -1, column = -1;       ///< dimensions that are cut into blocks: queries, keys
  bool causal = false;             ///< see Attention::causal

  std::vector<ValueId> scores;    ///< products over features, a block at a time
  std::vector<ValueId> elements;  ///< elementwise: forward, up to what softmax is taken of; backward, all
  std::vector<ValueId> products;  ///< of a block with the other operand, added up in memory
  std::vector<ValueId> sums;      ///< of blocks, element by element, added up in memory
  // forward
  std::vector<ValueId> exponential, after;
  ValueId maximum = -1, total = -1, weights = -1;

  /// All of them.
  std::vector<ValueId> values() const;
  /// Those that exist only block by block.
  std::vector<ValueId> hidden() const;
  int64_t extent(int dim) const { return ranges[dim].hi - ranges[dim].lo; }
  /// Dimension of the scores by factor of an operator of the nest, -1 for features.
  std::vector<int> dims_of(const LocalOp& op, const Program& reference) const;
};

/// Finds what can run as such nests, and rewrites the program for it: the backward pass gets operators of its own that
/// make the weights again, and takes sum(weights * their gradient) as sum(result * its gradient).
std::vector<FusedAttention> fuse_attention(LocalProgram& program, const Program& reference);

/// Whether the layouts let the nest be written: every operand that lies in memory is read and written by strides.
bool can_be_written(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts);

}  // namespace hetsynth::codegen
