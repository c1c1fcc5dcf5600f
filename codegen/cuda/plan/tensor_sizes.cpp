#include "codegen/cuda/plan/tensor_sizes.h"

#include <algorithm>

#include "codegen/cuda/plan/element_text.h"

namespace hetsynth::codegen::cuda::attention {
namespace {

constexpr int64_t most_features = 128;
/// Registers of a thread that tile and fragments may take beside addresses and what is at hand, if three blocks are to
/// fit on a multiprocessor: 65536 / (3 * 128) less about 50.
constexpr int64_t registers_of_three_blocks = 120;
/// The same where two are enough; beyond, operands that could be kept in registers are read again from shared memory.
constexpr int64_t registers_of_two_blocks = 170;

/// Of statistics and scales beside the tiles of a forward kernel.
constexpr int64_t registers_of_softmax = 16;

/// Whether rows of features can be copied 16 bytes at a time.
bool copies_by_eights(const Nest& nest, const Tile& tile) {
  bool out = tile.features % depth == 0 && tile.features <= most_features && tile.address.coefficients.back() == 1 &&
             tile.address.constant % 8 == 0;
  for (size_t d = 0; d < nest.a.shape.size(); ++d) out = out && nest.coefficient(tile.address, int(d)) % 8 == 0;
  return out;
}

int64_t shared_bytes(const std::vector<Tile>& tiles, bool keeps_rows, const TensorSize& size) {
  int64_t out = 0;
  for (const Tile& tile : tiles)
    out += 2 * stride_of(tile.features) * (tile.of_rows == keeps_rows ? size.kept() : size.swept);
  return out;
}

/// The largest tile of the other side that fits.
std::optional<TensorSize> fitting(const std::vector<Tile>& tiles, bool keeps_rows, int64_t strips, int64_t widest) {
  for (int64_t swept : {64, 32, 16}) {
    const TensorSize size{strips, swept};
    if (swept <= widest && shared_bytes(tiles, keeps_rows, size) <= most_shared_bytes) return size;
  }
  return std::nullopt;
}

/// Registers of a warp's tile of so many columns.
int64_t registers(int64_t strips, int64_t columns) { return strips * columns / panel_width * 4; }
/// Registers of left operands.
int64_t left_registers(int64_t strips, int64_t features) { return strips * features / depth * 4; }

int64_t registers_to_draw(const Nest& nest) { return draws(nest) ? 24 : 0; }

/// Two strips read right operands half as often; where heads are wide, there are few rows, or every element draws a
/// number (a hundred instructions, once for each that a lane has), one has to do.
int64_t wanted_strips(const Nest& nest, int64_t kept_extent, int64_t features) {
  if (draws(nest)) return 1;
  return features <= 64 && kept_extent > warps * strip_rows ? 2 : 1;
}

/// `needed`: registers beside the left operands of the kept side, which take `left` if they stay there. `spare`: for
/// what comes between the products.
void place_kept(TensorSize& size, int64_t needed, int64_t left, int64_t spare) {
  size.kept_in_registers = needed + left + spare <= registers_of_two_blocks;
  const int64_t read = size.kept_in_registers ? left : left_registers(size.strips, depth);
  size.blocks_at_once = needed + read <= registers_of_three_blocks ? 3 : 2;
}

}  // namespace

std::vector<Tile> forward_tiles(const Nest& nest) {
  const LocalOp &scores = nest.op(nest.a.scores[0]), &mixed = nest.op(nest.a.products[0]);
  const int q = nest.row_input(scores), v = 1 - nest.block_input(mixed);
  return {{scores.inputs[size_t(q)].value, nest.read(scores, q), true, nest.features(scores), "queries_tile"},
          {scores.inputs[size_t(1 - q)].value, nest.read(scores, 1 - q), false, nest.features(scores), "keys_tile"},
          {mixed.inputs[size_t(v)].value, nest.read(mixed, v), false, nest.features(mixed), "values_tile"}};
}

bool draws(const Nest& nest) {
  const auto any = [&](const std::vector<ValueId>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId v) { return mentions(nest.op(v).body, ExprKind::random); });
  };
  return any(nest.a.elements) || any(nest.a.after);
}

std::optional<TensorSize> tensor_forward_size(const Nest& nest) {
  const std::vector<Tile> tiles = forward_tiles(nest);
  const int64_t q = tiles[0].features, v = tiles[2].features;
  const int64_t extent = nest.a.extent(nest.a.row);
  auto size = fitting(tiles, true, wanted_strips(nest, extent, std::max(q, v)), draws(nest) ? 32 : 64);
  if (!size) return size;
  const int64_t needed = registers(size->strips, v) + registers(size->strips, size->swept) + registers_to_draw(nest);
  place_kept(*size, needed, left_registers(size->strips, q), registers_of_softmax);
  return size;
}

std::optional<TensorSize> tensor_backward_size(const Nest& nest, const Gradients& g) {
  const std::vector<Tile> tiles = tiles_of(nest, g, {});
  int64_t widest = 0, left = 0, sums = 0;
  for (const Tile& tile : tiles) widest = std::max(widest, tile.features);
  const int64_t extent = nest.a.extent(g.keeps_rows ? nest.a.row : nest.a.column);
  // A tile of two gradients leaves registers for one strip.
  const int64_t strips = g.products.size() > 1 ? 1 : wanted_strips(nest, extent, widest);
  auto size = fitting(tiles, g.keeps_rows, strips, 64);
  if (!size) return size;
  for (const Tile& tile : tiles)
    if (tile.of_rows == g.keeps_rows) left += left_registers(strips, tile.features);
  for (ValueId product : g.products) sums += registers(strips, nest.features(nest.op(product)));
  const int64_t needed = sums + int64_t(nest.a.scores.size()) * registers(strips, depth) +
                         int64_t(blocks_read(nest, g).size()) * left_registers(strips, depth) + registers_to_draw(nest);
  place_kept(*size, needed, left, 0);
  return size;
}

DType type_of(const LocalProgram& program, ValueId value) { return program.values[size_t(value)].type.dtype; }

bool is_rounding(const LocalOp& op) { return hetsynth::is_rounding(op.body); }

bool tiles_suit(const Nest& nest, const LocalProgram& program, const std::vector<Tile>& tiles) {
  const DType first = type_of(program, tiles.front().value);
  return is_half(first) && std::all_of(tiles.begin(), tiles.end(), [&](const Tile& tile) {
           return type_of(program, tile.value) == first && copies_by_eights(nest, tile);
         });
}

}  // namespace hetsynth::codegen::cuda::attention
