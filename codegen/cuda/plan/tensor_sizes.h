// How attention by tensor cores is cut into tiles, so that a kernel's tiles fit into shared memory and its fragments
// into registers.
#pragma once
#include <optional>
#include <vector>

#include "codegen/cuda/plan/attention_tiles.h"

namespace hetsynth::codegen::cuda::attention {

constexpr int64_t warps = 4, warp_threads = 32, block_threads = warps * warp_threads;
constexpr int64_t strip_rows = 16;  ///< of the left operand of one instruction
constexpr int64_t panel_width = 8;  ///< columns of the right operand and the sum
constexpr int64_t depth = 16;       ///< that an instruction sums over

/// Elements from one row of a tile to the next.
constexpr int64_t stride_of(int64_t features) { return features + 8; }

struct TensorSize {
  int64_t strips;  ///< that a warp owns
  int64_t swept;   ///< rows of a tile of the other side
  bool kept_in_registers = true;
  int blocks_at_once = 2;
  int64_t kept() const { return warps * strips * strip_rows; }
};

/// Tiles of a forward kernel: queries, keys, values.
std::vector<Tile> forward_tiles(const Nest& nest);

/// None: not even the smallest tiles fit.
std::optional<TensorSize> tensor_forward_size(const Nest& nest);
std::optional<TensorSize> tensor_backward_size(const Nest& nest, const Gradients& g);

/// Whether an element draws a number.
bool draws(const Nest& nest);
bool is_rounding(const LocalOp& op);
DType type_of(const LocalProgram& program, ValueId value);
/// Whether all are of one type of 16 bits and their rows can be copied 16 bytes at a time.
bool tiles_suit(const Nest& nest, const LocalProgram& program, const std::vector<Tile>& tiles);

}  // namespace hetsynth::codegen::cuda::attention
