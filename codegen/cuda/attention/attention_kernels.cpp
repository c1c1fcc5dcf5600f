#include "codegen/cuda/attention/attention_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/cuda/attention/attention_printer.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen::cuda {
namespace {

using namespace attention;

class AttentionPrinter : NestPrinter {
 public:
  AttentionPrinter(const KernelContext& context, const FusedAttention& attention, std::string name)
      : NestPrinter(context, attention, std::move(name)) {}

  StepKernels print() {
    return kernels([&] { return forward(); }, [&](const Gradients& gradients) { return backward(gradients); });
  }

 private:
  void shared(const std::string& name, int64_t rows, int64_t columns) {
    add("__shared__ float {}[{}][{}];", name, rows, padded(columns));
  }

  void prologue() { add("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", side); }

  /// Loads a tile; rows (or columns) beyond the end are zero. Four features at a time where memory allows.
  void load(const Tile& tile, int64_t edge, const std::string& begin) {
    widest_ = std::max(widest_, tile.features);
    const std::string& counter = tile.of_rows ? row() : column();
    const int64_t extent = a_.extent(tile.of_rows ? a_.row : a_.column);
    const std::string pointer = arguments_.read(tile.value);
    const DType type = context_.lowered.local.values[size_t(tile.value)].type.dtype;
    bool four = tile.features % 4 == 0 && tile.address.coefficients.back() == 1 && tile.address.constant % 4 == 0;
    for (size_t d = 0; d < a_.shape.size(); ++d) four = four && nest_.coefficient(tile.address, int(d)) % 4 == 0;
    int64_t step = four ? 4 : 1, count = edge * tile.features / step, per_row = tile.features / step;
    unroll((count + threads - 1) / threads);
    open("for (int at_load = threadIdx.x; at_load < {}; at_load += {}) {{", count, threads);
    add("const {} feature = at_load % {}{};", index_, per_row, four ? " * 4" : "");
    add("const {} {} = {} + at_load / {};", index_, counter, begin, per_row);
    std::string place = fmt::format("{}[at_load / {}]", tile.name, per_row);
    if (four) {
      add("{} four[4] = {{}};", memory_type(type));
      add("if ({} < {}) load4(four, {});", counter, extent, pointer_text(pointer, at(tile.address)));
      for (int v = 0; v < 4; ++v) add("{}[feature + {}] = four[{}];", place, v, v);
    } else {
      add("{}[feature] = {} < {} ? {}{}[{}] : 0.0f;", place, counter, extent, is_half(type) ? "(float)" : "", pointer,
          at(tile.address));
    }
    close();
  }

  /// part[i][j] = sum over features of a row's and a column's tile.
  void scores_part(const std::string& name, const Tile& rows, const Tile& columns, const TileSize& size) {
    int64_t tr = size.rows / side, tc = size.columns / side;
    add("float {}[{}][{}] = {{}};", name, tr, tc);
    unroll(rows.features);
    open("for (int feature = 0; feature < {}; ++feature) {{", rows.features);
    add("float left[{}], right[{}];", tr, tc);
    unrolled("i", tr);
    add("left[i] = {}[ty + {} * i][feature];", rows.name, side);
    close();
    unrolled("j", tc);
    add("right[j] = {}[tx + {} * j][feature];", columns.name, side);
    close();
    unrolled("i", tr);
    unrolled("j", tc);
    add("{}[i][j] += left[i] * right[j];", name);
    close();
    close();
    close();
  }

  /// part[i][f] += sum over `summed` of block x tile: the thread's lines ty + 16 i of the kept side and features tx +
  /// 16 f.
  void add_product(const std::string& name, const std::string& block_name, const Tile& tile, bool keeps_rows,
                   int64_t kept, int64_t summed) {
    int64_t lines = kept / side, features = (tile.features + side - 1) / side;
    unroll(summed);
    open("for (int k = 0; k < {}; ++k) {{", summed);
    add("float left[{}], right[{}];", lines, features);
    unrolled("i", lines);
    if (keeps_rows)
      add("left[i] = {}[ty + {} * i][k];", block_name, side);
    else
      add("left[i] = {}[k][ty + {} * i];", block_name, side);
    close();
    unrolled("j", features);
    if (tile.features % side == 0)
      add("right[j] = {}[k][tx + {} * j];", tile.name, side);
    else
      add("right[j] = tx + {0} * j < {1} ? {2}[k][tx + {0} * j] : 0.0f;", side, tile.features, tile.name);
    close();
    unrolled("i", lines);
    unrolled("j", features);
    add("{}[i][j] += left[i] * right[j];", name);
    close();
    close();
    close();
  }

  /// Stores part[i][f], after `value` made of it what is to be stored.
  void store_part(ValueId value, bool keeps_rows, int64_t kept, const std::string& begin, const std::string& text) {
    const LocalOp& op = nest_.op(value);
    const int64_t features = nest_.features(op);
    const int dim = keeps_rows ? a_.row : a_.column;
    unrolled("i", kept / side);
    add("const {} {} = {} + ty + {} * i;", index_, dims_[size_t(dim)], begin, side);
    unrolled("j", (features + side - 1) / side);
    add("const {} feature = tx + {} * j;", index_, side);
    Address written = nest_.written(op);
    std::string guard = fmt::format("{} < {}", dims_[size_t(dim)], a_.extent(dim));
    if (features % side != 0) guard += fmt::format(" && feature < {}", features);
    add("if ({}) {}[{}] = {};", guard, arguments_.written(value), at(written), text);
    close();
    close();
  }

  // ---- elements ----

  /// Opens the loops over a thread's elements of a tile and defines its row and column.
  void open_elements(const TileSize& size) {
    unrolled("i", size.rows / side);
    unrolled("j", size.columns / side);
    add("const {} {} = row_begin + ty + {} * i, {} = column_begin + tx + {} * j;", index_, row(), side, column(), side);
  }
  // ---- kernels ----

  Kernel forward() {
    const TileSize size = *forward_size(nest_);
    const LocalOp &scores = nest_.op(a_.scores[0]), &mixed = nest_.op(a_.products[0]);
    const int q = nest_.row_input(scores), v = 1 - nest_.block_input(mixed);
    const Tile queries{scores.inputs[size_t(q)].value, nest_.read(scores, q), true, nest_.features(scores),
                       "queries_tile"};
    const Tile keys{scores.inputs[size_t(1 - q)].value, nest_.read(scores, 1 - q), false, nest_.features(scores),
                    "keys_tile"};
    // Keys are no longer needed when values are: both have the same place.
    const Tile values{mixed.inputs[size_t(v)].value, nest_.read(mixed, v), false, nest_.features(mixed), "keys_tile"};
    const int64_t tr = size.rows / side, tc = size.columns / side, tf = (values.features + side - 1) / side;
    const int64_t tiles = (a_.extent(a_.row) + size.rows - 1) / size.rows;

    shared(queries.name, size.rows, queries.features);
    shared(keys.name, size.columns, std::max(keys.features, values.features));
    shared("weights_tile", size.rows, size.columns);
    prologue();
    const int64_t blocks = fixed_dims({}, tiles);
    add("const {} row_begin = {} * {};", index_, tile_number(tiles), size.rows);
    add("float largest[{}];", tr);
    add("float total[{}];", tr);
    add("float {}[{}][{}] = {{}};", part(a_.products[0]), tr, tf);
    unrolled("i", tr);
    line("largest[i] = -__builtin_inff();");
    line("total[i] = 0.0f;");
    close();
    load(queries, size.rows, "row_begin");
    open("for ({0} column_begin = 0; column_begin < {1}; column_begin += {2}) {{", index_, column_stop(size.rows),
         size.columns);
    barrier();
    load(keys, size.columns, "column_begin");
    barrier();
    scores_part(part(a_.scores[0]), queries, keys, size);
    softmax(size, tc, tf);
    barrier();
    load(values, size.columns, "column_begin");
    barrier();
    add_product(part(a_.products[0]), "weights_tile", values, true, size.rows, size.columns);
    close();
    store_part(a_.products[0], true, size.rows, "row_begin", fmt::format("{}[i][j] / total[i]", part(a_.products[0])));
    store_row(a_.maximum, "largest[i]", tr);
    store_row(a_.total, "total[i]", tr);
    return finish(name_, blocks, int(threads), blocks_at_once(),
                  fmt::format("// Scores exist for {} rows by {} columns at a time (online softmax).\n", size.rows,
                              size.columns));
  }

  void softmax(const TileSize& size, int64_t tc, int64_t tf) {
    const std::string scores = part(a_.scores[0]), mixed = part(a_.products[0]);
    open_elements(size);
    line("float score = -__builtin_inff();");
    open("if ({}) {{", inside());
    add("const float {} = {}[i][j];", element(a_.scores[0]), scores);
    for (ValueId value : a_.elements) define(value);
    add("score = {};", element(a_.elements.empty() ? a_.scores[0] : a_.elements.back()));
    close();
    add("{}[i][j] = score;", scores);
    close();
    close();
    unrolled("i", size.rows / side);
    line("// The row's maximum so far; what was added up under the last one is scaled to it.");
    line("float now = largest[i];");
    unrolled("j", tc);
    add("now = max_f32(now, {}[i][j]);", scores);
    close();
    line("now = lanes16_max(now);");
    line("const float shift = now == -__builtin_inff() ? 0.0f : now;");
    line("const float scale = exp_f32(largest[i] - shift);");
    line("float sum = 0.0f;");
    unrolled("j", tc);
    add("{0}[i][j] = exp_f32({0}[i][j] - shift);", scores);
    add("sum += {}[i][j];", scores);
    close();
    line("total[i] = total[i] * scale + lanes16_sum(sum);");
    line("largest[i] = now;");
    unrolled("j", tf);
    add("{}[i][j] *= scale;", mixed);
    close();
    close();
    if (a_.after.empty()) {
      unrolled("i", size.rows / side);
      unrolled("j", size.columns / side);
    } else {
      open_elements(size);
    }
    add("float weight = {}[i][j];", scores);
    if (!a_.after.empty()) {
      open("if ({}) {{", inside());
      add("const float {} = weight;", element(a_.weights));
      for (ValueId value : a_.after) define(value);
      add("weight = {};", element(a_.after.back()));
      close();
    }
    add("weights_tile[ty + {} * i][tx + {} * j] = weight;", side, side);
    close();
    close();
  }

  void store_row(ValueId value, const std::string& text, int64_t tr) {
    if (!context_.stored[size_t(value)]) return;
    const LocalOp& op = nest_.op(value);
    unrolled("i", tr);
    add("const {} {} = row_begin + ty + {} * i;", index_, row(), side);
    add("if (tx == 0 && {} < {}) {}[{}] = {};", row(), a_.extent(a_.row), arguments_.written(value),
        at(nest_.written(op)), text);
    close();
  }

  Kernel backward(const Gradients& g) {
    const TileSize size = *backward_size(nest_, g);
    const std::vector<Tile> tiles = tiles_of(nest_, g, context_.lowered.names);
    const int kept_dim = g.keeps_rows ? a_.row : a_.column, swept_dim = g.keeps_rows ? a_.column : a_.row;
    const int64_t kept = g.keeps_rows ? size.rows : size.columns, swept = g.keeps_rows ? size.columns : size.rows;
    const std::string kept_begin = g.keeps_rows ? "row_begin" : "column_begin";
    const std::string swept_begin = g.keeps_rows ? "column_begin" : "row_begin";
    const int64_t count = (a_.extent(kept_dim) + kept - 1) / kept;
    const std::set<ValueId> blocks = blocks_read(nest_, g);

    for (const Tile& tile : tiles) shared(tile.name, tile.of_rows ? size.rows : size.columns, tile.features);
    for (ValueId value : blocks) shared(block(value), size.rows, size.columns);
    prologue();
    const int64_t grid = fixed_dims(g.summed, count);
    add("const {} {} = {} * {};", index_, kept_begin, count == 1 ? "0" : fmt::format("(blockIdx.x % {})", count), kept);
    for (ValueId value : g.products)
      add("float {}[{}][{}] = {{}};", part(value), kept / side, (nest_.features(nest_.op(value)) + side - 1) / side);
    for (int dim : g.summed) open("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", index_, dims_[size_t(dim)], a_.extent(dim));
    if (!g.summed.empty()) barrier();
    for (const Tile& tile : tiles)
      if (tile.of_rows == g.keeps_rows) load(tile, kept, kept_begin);
    open("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", index_, swept_begin, sweep_start(g.keeps_rows, swept),
         g.keeps_rows ? column_stop(size.rows) : fmt::format("{}", a_.extent(swept_dim)), swept);
    barrier();
    for (const Tile& tile : tiles)
      if (tile.of_rows != g.keeps_rows) load(tile, swept, swept_begin);
    barrier();
    for (ValueId value : a_.scores)
      scores_part(part(value), tile_of_scores(nest_, tiles, value, true), tile_of_scores(nest_, tiles, value, false),
                  size);
    block_elements(size, blocks);
    barrier();
    for (ValueId value : g.products) {
      const LocalOp& op = nest_.op(value);
      const int b = nest_.block_input(op);
      const Tile wanted{op.inputs[size_t(1 - b)].value, nest_.read(op, 1 - b), !g.keeps_rows, 0, ""};
      add_product(part(value), block(op.inputs[size_t(b)].value), find_tile(tiles, wanted), g.keeps_rows, kept, swept);
    }
    close();
    for (size_t i = 0; i < g.summed.size(); ++i) close();
    for (ValueId value : g.products)
      store_part(value, g.keeps_rows, kept, kept_begin, fmt::format("{}[i][j]", part(value)));
    std::string of;
    for (ValueId value : g.products) of += (of.empty() ? "" : ", ") + tensor(value);
    return finish(name_ + (g.keeps_rows ? "_by_rows" : "_by_columns"), grid, int(threads), blocks_at_once(),
                  fmt::format("// {}: weights are made again for {} rows by {} columns at a time.\n", of, size.rows,
                              size.columns));
  }

  /// All elementwise operators of the nest for the thread's elements; what products read goes to shared memory.
  void block_elements(const TileSize& size, const std::set<ValueId>& blocks) {
    open_elements(size);
    for (ValueId value : blocks) add("float {}_of_block = 0.0f;", tensor(value));
    open("if ({}) {{", inside());
    for (ValueId value : a_.scores) add("const float {} = {}[i][j];", element(value), part(value));
    for (ValueId value : a_.elements) define(value);
    for (ValueId value : blocks) add("{}_of_block = {};", tensor(value), element(value));
    close();
    for (ValueId value : blocks)
      add("{}[ty + {} * i][tx + {} * j] = {}_of_block;", block(value), side, side, tensor(value));
    close();
    close();
  }

  /// Left to itself the assembler makes room for one block more than registers do for, and spills.
  int blocks_at_once() const { return widest_ <= 64 ? 3 : 2; }

  int64_t widest_ = 0;  ///< features of the tiles that are loaded
};

}  // namespace

bool attention_has_kernels(const FusedAttention& nest, const LocalProgram& program, const Layouts& layouts,
                           const Program& reference) {
  const Nest described(nest, program, layouts, reference);
  if (!nest.sums.empty()) return false;
  for (size_t d = 0; d < nest.shape.size(); ++d)
    if (nest.extent(int(d)) == 0) return false;
  if (!nest.backward) return forward_size(described).has_value();
  for (const Gradients& gradients : gradients_of(described))
    if (!backward_size(described, gradients)) return false;
  return true;
}

StepKernels attention_kernels(const KernelContext& context, const FusedAttention& nest, const std::string& name) {
  return AttentionPrinter(context, nest, name).print();
}

}  // namespace hetsynth::codegen::cuda
