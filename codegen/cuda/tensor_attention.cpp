#include "codegen/cuda/tensor_attention.h"

#include <algorithm>
#include <optional>

#include "codegen/cuda/attention_printer.h"

namespace hetsynth::codegen::cuda {
namespace {

using namespace attention;

constexpr int64_t warps = 4, warp_threads = 32, block_threads = warps * warp_threads;
constexpr int64_t strip_rows = 16;  ///< of the left operand of one instruction
constexpr int64_t panel_width = 8;  ///< columns of the right operand and the sum
constexpr int64_t depth = 16;       ///< that an instruction sums over
constexpr int64_t most_features = 128;
constexpr int64_t most_shared_bytes = 48 << 10;
/// Registers of a thread that tile and fragments may take beside addresses and what is at hand, if three blocks are to
/// fit on a multiprocessor: 65536 / (3 * 128) less about 50.
constexpr int64_t registers_of_three_blocks = 120;
/// The same where two are enough; beyond, operands that could be kept in registers are read again from shared memory.
constexpr int64_t registers_of_two_blocks = 170;

/// Of statistics and scales beside the tiles of a forward kernel.
constexpr int64_t registers_of_softmax = 16;

/// Elements from one row of a tile to the next.
constexpr int64_t stride_of(int64_t features) { return features + 8; }

struct TensorSize {
  int64_t strips;  ///< that a warp owns
  int64_t swept;   ///< rows of a tile of the other side
  bool kept_in_registers = true;
  int blocks_at_once = 2;
  int64_t kept() const { return warps * strips * strip_rows; }
};

bool is_bf16(const LocalProgram& program, ValueId value) {
  return program.values[size_t(value)].type.dtype == DType::bf16;
}

/// Whether rows of features can be copied 16 bytes at a time.
bool copies_by_eights(const Nest& nest, const Tile& tile) {
  bool out = tile.features % depth == 0 && tile.features <= most_features && tile.address.coefficients.back() == 1 &&
             tile.address.constant % 8 == 0;
  for (size_t d = 0; d < nest.a.shape.size(); ++d) out = out && nest.coefficient(tile.address, int(d)) % 8 == 0;
  return out;
}

/// Tiles of a forward kernel: queries, keys, values.
std::vector<Tile> forward_tiles(const Nest& nest) {
  const LocalOp &scores = nest.op(nest.a.scores[0]), &mixed = nest.op(nest.a.products[0]);
  const int q = nest.row_input(scores), v = 1 - nest.block_input(mixed);
  return {{scores.inputs[size_t(q)].value, nest.read(scores, q), true, nest.features(scores), "queries_tile"},
          {scores.inputs[size_t(1 - q)].value, nest.read(scores, 1 - q), false, nest.features(scores), "keys_tile"},
          {mixed.inputs[size_t(v)].value, nest.read(mixed, v), false, nest.features(mixed), "values_tile"}};
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

bool draws(const Nest& nest) {
  const auto any = [&](const std::vector<ValueId>& values) {
    return std::any_of(values.begin(), values.end(), [&](ValueId v) { return mentions_random(nest.op(v).body); });
  };
  return any(nest.a.elements) || any(nest.a.after);
}

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

bool is_rounding(const LocalOp& op) { return op.body == round_bf16(Expr::input(0)); }

class TensorPrinter : NestPrinter {
 public:
  TensorPrinter(const KernelContext& context, const FusedAttention& attention, const std::string& name)
      : NestPrinter(context, attention, name) {
    if (indices_fit()) index_ = "int";
  }

  StepKernels print() {
    StepKernels out;
    if (!a_.backward) {
      out.kernels.push_back(forward());
      return out;
    }
    for (const Gradients& gradients : gradients_of(nest_)) {
      next_kernel();
      out.kernels.push_back(backward(gradients));
    }
    return out;
  }

 private:
  /// Whether 32 bits are enough for what lies in memory: nothing else has an address here. A number is drawn by the
  /// position of a score.
  bool indices_fit() const {
    constexpr double most = double(1 << 30);
    const auto count = [&](ValueId value) {
      return double(context_.lowered.local.values[size_t(context_.lowered.layouts.of[size_t(value)].buffer)].count());
    };
    bool fit = !draws(nest_) || double(element_count(a_.shape)) < most;
    for (ValueId value : a_.values()) {
      const LocalOp& op = nest_.op(value);
      if (!nest_.is_block(value)) fit = fit && count(value) < most;
      for (const Operand& operand : op.inputs)
        if (!nest_.is_block(operand.value)) fit = fit && count(operand.value) < most;
    }
    return fit;
  }

  // ---- tiles and fragments ----

  void shared(const Tile& tile, int64_t lines) {
    add("__shared__ __align__(16) bf16 {}[{}][{}];", tile.name, lines, stride_of(tile.features));
  }

  void prologue() {
    add("const int warp = threadIdx.x / {0}, quad = threadIdx.x % {0} / 4, pair = threadIdx.x % 4 * 2;", warp_threads);
  }

  /// Loads a tile, 16 bytes at a time; what lies beyond the end is zero.
  void load(const Tile& tile, int64_t lines, const std::string& begin) {
    const std::string& counter = tile.of_rows ? row() : column();
    const int64_t extent = a_.extent(tile.of_rows ? a_.row : a_.column), per_line = tile.features / 8;
    const std::string pointer = arguments_.read(tile.value);
    unroll((lines * per_line + block_threads - 1) / block_threads);
    open("for (int at_load = threadIdx.x; at_load < {}; at_load += {}) {{", lines * per_line, block_threads);
    add("const {} feature = at_load % {} * 8;", index_, per_line);
    add("const {} {} = {} + at_load / {};", index_, counter, begin, per_line);
    const std::string place = fmt::format("{}[at_load / {}] + feature", tile.name, per_line);
    const std::string copy = fmt::format("copy8({}, {} + {});", place, pointer, at(tile.address));
    if (extent % lines == 0) {
      line(copy);
    } else {
      open("if ({} < {}) {{", counter, extent);
      line(copy);
      lines_.close("} else {");
      lines_.deepen();
      unrolled("beyond", 8);
      add("{}[at_load / {}][feature + beyond] = (bf16)0.0f;", tile.name, per_line);
      close();
      close();
    }
    close();
  }

  static std::string fragment(const Tile& tile) {
    return tile.name.substr(0, tile.name.size() - std::string("tile").size()) + "fragment";
  }
  std::string fragment(ValueId value) const { return tensor(value) + "_fragment"; }

  std::string strip_begin(int64_t strips) const {
    return strips == 1 ? fmt::format("warp * {}", strip_rows)
                       : fmt::format("warp * {} + strip * {}", strips * strip_rows, strip_rows);
  }
  std::string load_left_text(const std::string& to, const Tile& tile, int64_t strips) const {
    return fmt::format("load_left({}, {}[{}] + deep * {}, {});", to, tile.name, strip_begin(strips), depth,
                       stride_of(tile.features));
  }

  /// The warp's strips of a kept tile, for the whole kernel.
  void keep_fragments(const Tile& tile, int64_t strips) {
    add("bf16 {}[{}][{}][8];", fragment(tile), strips, tile.features / depth);
    unrolled("strip", strips);
    unrolled("deep", tile.features / depth);
    line(load_left_text(fragment(tile) + "[strip][deep]", tile, strips));
    close();
    close();
  }

  /// part[strip][panel] += the warp's strips of the kept tile x so many lines of the swept one from `begin` on.
  void scores_part(const std::string& name, const Tile& kept, const Tile& swept, const TensorSize& size, int64_t lines,
                   const std::string& begin) {
    add("float {}[{}][{}][4] = {{}};", name, size.strips, lines / panel_width);
    unrolled("deep", kept.features / depth);
    std::string left = fragment(kept) + "[strip][deep]";
    if (!size.kept_in_registers) {
      add("bf16 left[{}][8];", size.strips);
      left = "left[strip]";
      unrolled("strip", size.strips);
      line(load_left_text(left, kept, size.strips));
      close();
    }
    unrolled("panel", lines / depth);
    line("bf16 right[8];");
    add("load_right(right, {}[{}panel * {}] + deep * {}, {});", swept.name, begin, depth, depth,
        stride_of(swept.features));
    unrolled("strip", size.strips);
    add("mma_bf16({}[strip][2 * panel], {}, right);", name, left);
    add("mma_bf16({}[strip][2 * panel + 1], {}, right + 4);", name, left);
    close();
    close();
    close();
  }

  /// Rounds a part to the left operands of the next product: both have the same elements in the same lanes.
  void round_part(const std::string& to, const std::string& from, int64_t strips, int64_t columns) {
    add("bf16 {}[{}][{}][8];", to, strips, columns / depth);
    unrolled("strip", strips);
    unrolled("panel", columns / panel_width);
    for (int half : {0, 2})
      add("round2({}[strip][panel / 2] + panel % 2 * 4 + {}, {}[strip][panel] + {});", to, half, from, half);
    close();
    close();
  }

  /// part[strip][panel] += left operands x lines of a tile from `begin` on.
  void add_product(const std::string& name, const std::string& left, const Tile& tile, int64_t strips, int64_t lines,
                   const std::string& begin) {
    unrolled("deep", lines / depth);
    unrolled("panel", tile.features / depth);
    line("bf16 right[8];");
    add("load_right_by_rows(right, {}[{}deep * {}] + panel * {}, {});", tile.name, begin, depth, depth,
        stride_of(tile.features));
    unrolled("strip", strips);
    add("mma_bf16({}[strip][2 * panel], {}[strip][deep], right);", name, left);
    add("mma_bf16({}[strip][2 * panel + 1], {}[strip][deep], right + 4);", name, left);
    close();
    close();
    close();
  }

  /// Stores part[strip][panel][cell], of the lines that the warp owns, after `text` made of it what is to be stored.
  void store_part(ValueId value, bool keeps_rows, int64_t strips, const std::string& begin, const std::string& text) {
    const LocalOp& op = nest_.op(value);
    const int dim = keeps_rows ? a_.row : a_.column;
    const std::string pointer = arguments_.written(value);
    unrolled("strip", strips);
    unrolled("panel", nest_.features(op) / panel_width);
    unrolled("cell", 4);
    add("const {} {} = {} + {} + quad + cell / 2 * 8, feature = panel * {} + pair + cell % 2;", index_,
        dims_[size_t(dim)], begin, strip_begin(strips), panel_width);
    const std::string store = fmt::format("{}[{}] = {};", pointer, at(nest_.written(op)), text);
    if (a_.extent(dim) % (warps * strips * strip_rows) == 0)
      line(store);
    else
      add("if ({} < {}) {}", dims_[size_t(dim)], a_.extent(dim), store);
    close();
    close();
    close();
  }

  // ---- elements ----

  /// Loops over a lane's elements of a part, whose row and column are defined where `body` mentions them.
  template <class Body>
  void elements(bool keeps_rows, int64_t strips, int64_t columns, const std::string& begin, const std::string& swept,
                Body&& body) {
    unrolled("strip", strips);
    unrolled("panel", columns / panel_width);
    unrolled("cell", 4);
    Lines outside = lines_;
    lines_ = Lines(outside.depth());
    body();
    const std::string inner = lines_.text();
    lines_ = std::move(outside);
    const auto define_counter = [&](const std::string& counter, const std::string& value) {
      if (mentions_word(inner, counter)) add("const {} {} = {};", index_, counter, value);
    };
    define_counter(keeps_rows ? row() : column(),
                   fmt::format("{} + {} + quad + cell / 2 * 8", begin, strip_begin(strips)));
    define_counter(keeps_rows ? column() : row(), fmt::format("{} + panel * {} + pair + cell % 2", swept, panel_width));
    lines_.append(inner);
    for (int i = 0; i < 3; ++i) close();
  }

  /// Whether an operator puts something else in place of what a causal mask hides, and is its operand elsewhere.
  bool hides_elements(ValueId value) const {
    const LocalOp& op = nest_.op(value);
    const Expr& body = op.body;
    if (!hides() || body.kind() != ExprKind::select || body.arg(0).kind() != ExprKind::less) return false;
    const Expr &first = body.arg(0).arg(0), &second = body.arg(0).arg(1);
    if (first.kind() != ExprKind::factor || second.kind() != ExprKind::factor) return false;
    const std::vector<int> dims = nest_.dims(op);
    return dims[size_t(first.index())] == a_.row && dims[size_t(second.index())] == a_.column &&
           body.arg(1).kind() == ExprKind::constant && body.arg(2).kind() == ExprKind::input &&
           nest_.is_block(op.inputs[size_t(body.arg(2).index())].value);
  }

  /// `seen`: no element of the tile is hidden.
  void define_element(ValueId value, bool seen) {
    const LocalOp& op = nest_.op(value);
    if (is_rounding(op)) return;  // products round what they read
    std::string text;
    if (seen && hides_elements(value)) {
      text = element(op.inputs[size_t(op.body.arg(2).index())].value);
    } else if (op.body == Expr::input(0) / Expr::input(1) && !nest_.is_block(op.inputs[1].value)) {
      // A reciprocal for each row, where a quotient would be for each element.
      text = fmt::format("{} * (1.0f / {}[{}])", element(op.inputs[0].value), arguments_.read(op.inputs[1].value),
                         at(nest_.read(op, 1)));
    } else {
      text = expression(value);
      for (size_t at = text.find("exp_f32("); at != std::string::npos; at = text.find("exp_f32(", at + 1))
        if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(') text.replace(at, 7, "exp_fast_f32");
    }
    add("const float {} = {};", element(value), text);
  }

  /// What a product reads of a block, before it is rounded.
  ValueId unrounded(ValueId value) const {
    return is_rounding(nest_.op(value)) ? nest_.op(value).inputs[0].value : value;
  }

  bool guarded(const TensorSize& size, bool keeps_rows) const {
    const int64_t kept = a_.extent(keeps_rows ? a_.row : a_.column);
    const int64_t swept = a_.extent(keeps_rows ? a_.column : a_.row);
    return kept % size.kept() != 0 || swept % size.swept != 0;
  }

  /// Writes `body` with and without what a causal mask does, and asks which one a warp's part needs.
  template <class Body>
  void where_hidden(const std::string& seen, Body&& body) {
    if (seen.empty()) return body(false);
    open("if ({}) {{", seen);
    body(true);
    lines_.close("} else {");
    lines_.deepen();
    body(false);
    close();
  }

  bool any_hides(const std::vector<ValueId>& values) const {
    return std::any_of(values.begin(), values.end(), [&](ValueId value) { return hides_elements(value); });
  }

  // ---- forward ----

  Kernel forward() {
    const TensorSize size = *tensor_forward_size(nest_);
    const std::vector<Tile> tiles = forward_tiles(nest_);
    const Tile &queries = tiles[0], &keys = tiles[1], &values = tiles[2];
    const int64_t count = (a_.extent(a_.row) + size.kept() - 1) / size.kept();
    const std::string scores = part(a_.scores[0]), mixed = part(a_.products[0]);
    shared(queries, size.kept());
    shared(keys, size.swept);
    shared(values, size.swept);
    prologue();
    const int64_t grid = fixed_dims({}, count);
    add("const {} row_begin = {} * {};", index_, tile_number(count), size.kept());
    add("float largest[{0}][2], total[{0}][2];", size.strips);
    add("float {}[{}][{}][4] = {{}};", mixed, size.strips, values.features / panel_width);
    unrolled("strip", size.strips);
    unrolled("half", 2);
    line("largest[strip][half] = -__builtin_inff();");
    line("total[strip][half] = 0.0f;");
    close();
    close();
    load(queries, size.kept(), "row_begin");
    if (size.kept_in_registers) {
      barrier();
      keep_fragments(queries, size.strips);
    }
    open("for ({0} column_begin = 0; column_begin < {1}; column_begin += {2}) {{", index_, column_stop(size.kept()),
         size.swept);
    barrier();
    load(keys, size.swept, "column_begin");
    load(values, size.swept, "column_begin");
    barrier();
    scores_part(scores, queries, keys, size, size.swept, "");
    score_elements(size);
    online_softmax(size, values.features);
    dropped_elements(size);
    const std::string left = fragment(nest_.op(a_.products[0]).inputs[size_t(block_of(a_.products[0]))].value);
    round_part(left, scores, size.strips, size.swept);
    add_product(mixed, left, values, size.strips, size.swept, "");
    close();
    store_forward(size);
    return finish(
        name_, grid, int(block_threads), size.blocks_at_once,
        fmt::format("// By tensor cores; scores exist for {} rows by {} columns at a time (online softmax).\n",
                    size.kept(), size.swept));
  }

  int block_of(ValueId product) const { return nest_.block_input(nest_.op(product)); }

  void score_elements(const TensorSize& size) {
    const bool guard = guarded(size, true);
    if (a_.elements.empty() && !guard) return;
    const std::string scores = part(a_.scores[0]);
    std::string seen;
    if (any_hides(a_.elements))
      seen =
          fmt::format("column_begin + {} <= row_begin + warp * {}", size.swept - 1 - shift(), size.strips * strip_rows);
    where_hidden(seen, [&](bool all_seen) {
      elements(true, size.strips, size.swept, "row_begin", "column_begin", [&] {
        if (guard) {
          line("float score = -__builtin_inff();");
          open("if ({}) {{", inside());
        }
        add("const float {} = {}[strip][panel][cell];", element(a_.scores[0]), scores);
        for (ValueId value : a_.elements) define_element(value, all_seen);
        const std::string result = element(a_.elements.empty() ? a_.scores[0] : a_.elements.back());
        if (guard) {
          add("score = {};", result);
          close();
        }
        add("{}[strip][panel][cell] = {};", scores, guard ? "score" : result);
      });
    });
  }

  void online_softmax(const TensorSize& size, int64_t features) {
    const std::string scores = part(a_.scores[0]), mixed = part(a_.products[0]);
    unrolled("strip", size.strips);
    unrolled("half", 2);
    line("// The row's maximum so far; what was added up under the last one is scaled to it.");
    line("float now = largest[strip][half];");
    unrolled("panel", size.swept / panel_width);
    for (int side : {0, 1}) add("now = max_f32(now, {}[strip][panel][2 * half + {}]);", scores, side);
    close();
    line("now = lanes4_max(now);");
    line("const float shift = now == -__builtin_inff() ? 0.0f : now;");
    line("const float scale = exp_fast_f32(largest[strip][half] - shift);");
    line("float sum = 0.0f;");
    unrolled("panel", size.swept / panel_width);
    unrolled("side", 2);
    add("{0}[strip][panel][2 * half + side] = exp_fast_f32({0}[strip][panel][2 * half + side] - shift);", scores);
    add("sum += {}[strip][panel][2 * half + side];", scores);
    close();
    close();
    line("total[strip][half] = total[strip][half] * scale + sum;  // of this lane's columns");
    line("largest[strip][half] = now;");
    unrolled("panel", features / panel_width);
    for (int side : {0, 1}) add("{}[strip][panel][2 * half + {}] *= scale;", mixed, side);
    close();
    close();
    close();
  }

  /// What comes between weights and values, but for the rounding.
  void dropped_elements(const TensorSize& size) {
    const bool any =
        std::any_of(a_.after.begin(), a_.after.end(), [&](ValueId value) { return !is_rounding(nest_.op(value)); });
    if (!any) return;
    const bool guard = guarded(size, true);
    elements(true, size.strips, size.swept, "row_begin", "column_begin", [&] {
      if (guard) open("if ({}) {{", inside());
      add("const float {} = {}[strip][panel][cell];", element(a_.weights), part(a_.scores[0]));
      for (ValueId value : a_.after) define_element(value, false);
      add("{}[strip][panel][cell] = {};", part(a_.scores[0]), element(unrounded(a_.after.back())));
      if (guard) close();
    });
  }

  void store_forward(const TensorSize& size) {
    unrolled("strip", size.strips);
    unrolled("half", 2);
    line("total[strip][half] = lanes4_sum(total[strip][half]);");
    close();
    close();
    store_part(a_.products[0], true, size.strips, "row_begin",
               fmt::format("{}[strip][panel][cell] * (1.0f / total[strip][cell / 2])", part(a_.products[0])));
    for (ValueId value : {a_.maximum, a_.total}) {
      if (!context_.stored[size_t(value)]) continue;
      unrolled("strip", size.strips);
      unrolled("half", 2);
      add("const {} {} = row_begin + {} + quad + half * 8;", index_, row(), strip_begin(size.strips));
      add("if (pair == 0 && {} < {}) {}[{}] = {}[strip][half];", row(), a_.extent(a_.row), arguments_.written(value),
          at(nest_.written(nest_.op(value))), value == a_.total ? "total" : "largest");
      close();
      close();
    }
  }

  // ---- backward ----

  Kernel backward(const Gradients& g) {
    const TensorSize size = *tensor_backward_size(nest_, g);
    const std::vector<Tile> tiles = tiles_of(nest_, g, context_.lowered.names);
    const int kept_dim = g.keeps_rows ? a_.row : a_.column, swept_dim = g.keeps_rows ? a_.column : a_.row;
    const std::string kept_begin = g.keeps_rows ? "row_begin" : "column_begin";
    const std::string swept_begin = g.keeps_rows ? "column_begin" : "row_begin";
    const int64_t count = (a_.extent(kept_dim) + size.kept() - 1) / size.kept();
    const std::set<ValueId> blocks = blocks_read(nest_, g);

    for (const Tile& tile : tiles) shared(tile, tile.of_rows == g.keeps_rows ? size.kept() : size.swept);
    prologue();
    const int64_t grid = fixed_dims(g.summed, count);
    add("const {} {} = {} * {};", index_, kept_begin, count == 1 ? "0" : fmt::format("(blockIdx.x % {})", count),
        size.kept());
    for (ValueId value : g.products)
      add("float {}[{}][{}][4] = {{}};", part(value), size.strips, nest_.features(nest_.op(value)) / panel_width);
    for (int dim : g.summed) open("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", index_, dims_[size_t(dim)], a_.extent(dim));
    if (!g.summed.empty()) barrier();
    for (const Tile& tile : tiles)
      if (tile.of_rows == g.keeps_rows) load(tile, size.kept(), kept_begin);
    if (size.kept_in_registers) {
      barrier();
      for (const Tile& tile : tiles)
        if (tile.of_rows == g.keeps_rows) keep_fragments(tile, size.strips);
    }
    open("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", index_, swept_begin, sweep_start(g.keeps_rows, size.swept),
         g.keeps_rows ? column_stop(size.kept()) : fmt::format("{}", a_.extent(swept_dim)), size.swept);
    barrier();
    for (const Tile& tile : tiles)
      if (tile.of_rows != g.keeps_rows) load(tile, size.swept, swept_begin);
    barrier();
    sweep(g, size, tiles, blocks, kept_begin, swept_begin);
    close();
    for (size_t i = 0; i < g.summed.size(); ++i) close();
    for (ValueId value : g.products)
      store_part(value, g.keeps_rows, size.strips, kept_begin, fmt::format("{}[strip][panel][cell]", part(value)));
    std::string of;
    for (ValueId value : g.products) of += (of.empty() ? "" : ", ") + tensor(value);
    return finish(name_ + (g.keeps_rows ? "_by_rows" : "_by_columns"), grid, int(block_threads), size.blocks_at_once,
                  fmt::format("// {}, by tensor cores: {} {} of a block sweep over {} {} at a time, {} of which make "
                              "weights again in one go.\n",
                              of, size.kept(), g.keeps_rows ? "rows" : "columns", size.swept,
                              g.keeps_rows ? "columns" : "rows", depth));
  }

  /// Sixteen lines of the swept tile at a time: as many as an instruction of the next products sums over.
  void sweep(const Gradients& g, const TensorSize& size, const std::vector<Tile>& tiles,
             const std::set<ValueId>& blocks, const std::string& kept_begin, const std::string& swept_begin) {
    line("#pragma unroll 1");
    open("for (int at_line = 0; at_line < {0}; at_line += {1}) {{", size.swept, depth);
    for (ValueId value : a_.scores)
      scores_part(part(value), tile_of_scores(nest_, tiles, value, g.keeps_rows),
                  tile_of_scores(nest_, tiles, value, !g.keeps_rows), size, depth, "at_line + ");
    block_elements(g, size, blocks, kept_begin, swept_begin);
    size_t place = 0;
    for (ValueId value : blocks) round_part(fragment(value), part(a_.scores[place++]), size.strips, depth);
    for (ValueId value : g.products) {
      const LocalOp& op = nest_.op(value);
      const int b = nest_.block_input(op);
      const Tile wanted{op.inputs[size_t(1 - b)].value, nest_.read(op, 1 - b), !g.keeps_rows, 0, ""};
      add_product(part(value), fragment(op.inputs[size_t(b)].value), find_tile(tiles, wanted), size.strips, depth,
                  "at_line + ");
    }
    close();
  }

  /// All elementwise operators of the nest for the lane's elements; what products read takes the places of the scores.
  void block_elements(const Gradients& g, const TensorSize& size, const std::set<ValueId>& blocks,
                      const std::string& kept_begin, const std::string& swept_begin) {
    const bool guard = guarded(size, g.keeps_rows);
    std::string seen;
    if (any_hides(a_.elements)) {
      // The last column against the first row.
      const std::string warp = fmt::format("warp * {}", size.strips * strip_rows);
      seen = g.keeps_rows ? fmt::format("column_begin + at_line + {} <= row_begin + {}", depth - 1 - shift(), warp)
                          : fmt::format("column_begin + {} + {} <= row_begin + at_line", warp,
                                        size.strips * strip_rows - 1 - shift());
    }
    where_hidden(seen, [&](bool all_seen) {
      elements(g.keeps_rows, size.strips, depth, kept_begin, swept_begin + " + at_line", [&] {
        if (guard) {
          for (ValueId value : blocks) add("float {}_of_block = 0.0f;", tensor(value));
          open("if ({}) {{", inside());
        }
        for (ValueId value : a_.scores) add("const float {} = {}[strip][panel][cell];", element(value), part(value));
        for (ValueId value : a_.elements) define_element(value, all_seen);
        if (guard) {
          for (ValueId value : blocks) add("{}_of_block = {};", tensor(value), element(unrounded(value)));
          close();
        }
        size_t place = 0;
        for (ValueId value : blocks)
          add("{}[strip][panel][cell] = {};", part(a_.scores[place++]),
              guard ? tensor(value) + "_of_block" : element(unrounded(value)));
      });
    });
  }
};

/// Whether all that products read of blocks is rounded by an operator of its own.
bool rounds_blocks(const Nest& nest, const LocalProgram& program) {
  return std::all_of(nest.a.products.begin(), nest.a.products.end(), [&](ValueId product) {
    const LocalOp& op = nest.op(product);
    const ValueId block = op.inputs[size_t(nest.block_input(op))].value;
    return is_bf16(program, block) && is_rounding(nest.op(block)) && nest.is_block(nest.op(block).inputs[0].value);
  });
}

/// Whether a rounded block is read by products alone: elementwise operators would want it rounded, too.
bool only_products_read_rounded(const Nest& nest) {
  return std::all_of(nest.a.elements.begin(), nest.a.elements.end(), [&](ValueId value) {
    const LocalOp& op = nest.op(value);
    return std::none_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& operand) {
      return nest.is_block(operand.value) && is_rounding(nest.op(operand.value));
    });
  });
}

bool tiles_suit(const Nest& nest, const LocalProgram& program, const std::vector<Tile>& tiles) {
  return std::all_of(tiles.begin(), tiles.end(),
                     [&](const Tile& tile) { return is_bf16(program, tile.value) && copies_by_eights(nest, tile); });
}

}  // namespace

bool has_tensor_cores(const std::string& architecture) {
  const std::string digits = architecture.rfind("sm_", 0) == 0 ? architecture.substr(3) : "";
  return !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         digits.size() <= 4 && std::stoi(digits) >= 80;
}

bool needs_tensor_cores(const std::string& kernels) {
  // The prelude says how they multiply.
  return kernels.find("mma_bf16(", std::min(kernels.find("extern \"C\" __global__"), kernels.size())) !=
         std::string::npos;
}

bool attention_has_tensor_kernels(const FusedAttention& attention, const LocalProgram& program, const Layouts& layouts,
                                  const Program& reference) {
  const Nest nest(attention, program, layouts, reference);
  if (!attention.sums.empty() || !rounds_blocks(nest, program) || !only_products_read_rounded(nest)) return false;
  for (size_t d = 0; d < attention.shape.size(); ++d)
    if (attention.extent(int(d)) == 0) return false;
  if (!attention.backward) return tiles_suit(nest, program, forward_tiles(nest)) && tensor_forward_size(nest);
  for (const Gradients& g : gradients_of(nest)) {
    const size_t blocks = blocks_read(nest, g).size();
    if (blocks > attention.scores.size() || !tiles_suit(nest, program, tiles_of(nest, g, {})) ||
        !tensor_backward_size(nest, g))
      return false;
    for (ValueId product : g.products)
      if (nest.features(nest.op(product)) % depth != 0) return false;
  }
  return true;
}

StepKernels tensor_attention_kernels(const KernelContext& context, const FusedAttention& nest,
                                     const std::string& name) {
  return TensorPrinter(context, nest, name).print();
}

}  // namespace hetsynth::codegen::cuda
