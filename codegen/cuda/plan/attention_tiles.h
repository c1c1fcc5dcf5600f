// What the attention kernels hold in shared memory: the operands of a nest in terms of the dimensions of its scores,
// the tiles they are read by, and how large the tiles are.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/passes/attention.h"

namespace hetsynth::codegen::cuda::attention {

/// 16 x 16 threads; thread (ty, tx) has rows ty, ty + 16, ... and columns (or features) tx, tx + 16, ... of a tile.
constexpr int64_t side = 16, threads = side * side;

/// Bytes of shared memory that a kernel may use without asking the driver for more.
constexpr int64_t most_shared_bytes = 48 << 10;

/// Elements from one row of a tile to the next: neighbouring rows lie in different banks.
constexpr int64_t padded(int64_t features) { return features + 1; }

/// The operators of a nest, and their accesses in terms of the dimensions of the scores.
class Nest {
 public:
  /// All four outlive it.
  Nest(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts, const Program& reference);

  const FusedAttention& a;
  const LocalOp& op(ValueId value) const { return *op_.at(value); }
  /// Whether a value exists only block by block.
  bool is_block(ValueId value) const;
  /// By factor of an operator: the dimension of the scores it runs over, -1 for features.
  std::vector<int> dims(const LocalOp& op) const { return a.dims_of(op, reference_); }
  int64_t features(const LocalOp& op) const;

  /// Coefficients by dimension of the scores, the last that of the features.
  Address read(const LocalOp& op, int input) const;
  Address written(const LocalOp& op) const;
  /// 0 for dimensions of one element.
  int64_t coefficient(const Address& address, int dim) const;

  /// Which input of a product of features runs over rows; the other one runs over columns.
  int row_input(const LocalOp& op) const;
  /// Which input of a product is a block.
  int block_input(const LocalOp& op) const { return is_block(op.inputs[0].value) ? 0 : 1; }
  /// Whether a product that reads a block sums over its columns (and keeps its rows).
  bool sums_columns(const LocalOp& op) const;

 private:
  bool varies(const LocalOp& op, int input, int dim) const;
  Address over_dims(const Address& address, const LocalOp& op) const;

  const LocalProgram& program_;
  const Layouts& layouts_;
  const Program& reference_;
  std::map<ValueId, const LocalOp*> op_;
  std::vector<ValueId> hidden_;
};

/// An operand in shared memory: rows (or columns) x features.
struct Tile {
  ValueId value;
  Address address;
  bool of_rows;
  int64_t features;
  std::string name;
  bool same(const Tile& other) const {
    return value == other.value && address == other.address && of_rows == other.of_rows;
  }
};

/// What one backward kernel adds up: products that keep the same side and run over the same other dimensions.
struct Gradients {
  bool keeps_rows;
  std::vector<int> summed;  ///< other dimensions of the scores that the results do not have
  std::vector<ValueId> products;
};

/// One entry for each backward kernel.
std::vector<Gradients> gradients_of(const Nest& nest);

/// The blocks that the products of a backward kernel read.
std::set<ValueId> blocks_read(const Nest& nest, const Gradients& gradients);

/// The tiles that scores and products of a backward kernel read, each once. `names`: by value; empty: none are needed.
std::vector<Tile> tiles_of(const Nest& nest, const Gradients& gradients, const std::vector<std::string>& names);

struct TileSize {
  int64_t rows, columns;
};

/// The largest tiles that fit into shared memory; none if even the smallest do not.
std::optional<TileSize> forward_size(const Nest& nest);
std::optional<TileSize> backward_size(const Nest& nest, const Gradients& gradients);

}  // namespace hetsynth::codegen::cuda::attention
