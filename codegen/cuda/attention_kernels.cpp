#include "codegen/cuda/attention_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/annotate.h"
#include "codegen/cuda/attention_tiles.h"
#include "codegen/cuda/kernel_writer.h"
#include "dsl/base/error.h"

namespace hetsynth::codegen::cuda {
namespace {

constexpr int64_t turns_at_once = 8;  ///< of a loop over features or a tile's lines

using namespace attention;

class AttentionPrinter {
 public:
  AttentionPrinter(const KernelContext& context, const FusedAttention& attention, std::string name)
      : context_(context),
        nest_(attention, context.lowered.local, context.lowered.layouts, *context.lowered.reference),
        a_(attention),
        name_(std::move(name)),
        arguments_(context),
        lines_(1) {
    std::vector<int> ops;
    const std::vector<ValueId> own = attention.values();
    for (size_t i = 0; i < context.lowered.local.ops.size(); ++i) {
      const LocalOp& op = context.lowered.local.ops[i];
      if (!std::count(own.begin(), own.end(), op.result)) continue;
      ops.push_back(int(i));
      comment_ += "// " + origin_text(context.lowered, op) + "\n";
    }
    index_ = index_type(context, ops);
    for (size_t d = 0; d < a_.shape.size(); ++d) {
      dims_.push_back("at_" + a_.names[d]);
      for (int n = 2; std::count(dims_.begin(), dims_.end() - 1, dims_.back()); ++n)
        dims_.back() = fmt::format("at_{}{}", a_.names[d], n);
    }
  }

  StepKernels print() {
    StepKernels out;
    if (!a_.backward) {
      out.kernels.push_back(forward());
      return out;
    }
    for (const Gradients& gradients : gradients_of(nest_)) {
      arguments_ = Arguments(context_);
      lines_ = Lines(1);
      out.kernels.push_back(backward(gradients));
    }
    return out;
  }

 private:
  void line(const std::string& text) { lines_.add(text); }
  template <class... T>
  void add(fmt::format_string<T...> text, T&&... values) {
    lines_.add(fmt::format(text, std::forward<T>(values)...));
  }
  template <class... T>
  void open(fmt::format_string<T...> text, T&&... values) {
    lines_.open(fmt::format(text, std::forward<T>(values)...));
  }
  void close() { lines_.close(); }
  void barrier() { line("__syncthreads();"); }
  void unrolled(const std::string& counter, int64_t count) {
    line("#pragma unroll");
    open("for (int {0} = 0; {0} < {1}; ++{0}) {{", counter, count);
  }

  /// Of a long loop, so many turns at once: left to itself the compiler takes all, and seconds.
  void unroll(int64_t turns) { add("#pragma unroll {}", std::clamp<int64_t>(turns, 1, turns_at_once)); }

  const std::string& tensor(ValueId value) const { return context_.lowered.names[size_t(value)]; }
  std::string element(ValueId value) const { return tensor(value) + "_"; }
  std::string part(ValueId value) const { return tensor(value) + "_part"; }
  std::string block(ValueId value) const { return tensor(value) + "_tile"; }
  const std::string& row() const { return dims_[size_t(a_.row)]; }
  const std::string& column() const { return dims_[size_t(a_.column)]; }
  int64_t shift() const { return a_.ranges[size_t(a_.row)].lo - a_.ranges[size_t(a_.column)].lo; }
  bool hides() const { return a_.causal && shift() < a_.extent(a_.column); }

  /// Text of an address; the feature counter is "feature".
  std::string at(Address address) const {
    std::vector<std::string> counters = dims_;
    counters.push_back("feature");
    for (size_t d = 0; d < a_.shape.size(); ++d)
      if (a_.extent(int(d)) == 1) address.coefficients[d] = 0;
    return address_text(address, counters);
  }

  void shared(const std::string& name, int64_t rows, int64_t columns) {
    add("__shared__ float {}[{}][{}];", name, rows, padded(columns));
  }

  void prologue() { add("const int tx = threadIdx.x % {0}, ty = threadIdx.x / {0};", side); }

  /// Counters of the dimensions that a block of threads has one index of; `tiles` blocks share all of them.
  int64_t fixed_dims(const std::vector<int>& summed, int64_t tiles) {
    int64_t divide = tiles;
    for (size_t d = a_.shape.size(); d-- > 0;) {
      int dim = int(d);
      bool fixed =
          dim != a_.row && dim != a_.column && a_.extent(dim) != 1 && !std::count(summed.begin(), summed.end(), dim);
      if (!fixed) continue;
      add("const {} {} = blockIdx.x / {} % {};", index_, dims_[d], divide, a_.extent(dim));
      divide *= a_.extent(dim);
    }
    return divide;
  }

  /// Loads a tile; rows (or columns) beyond the end are zero. Four features at a time where memory allows.
  void load(const Tile& tile, int64_t edge, const std::string& begin) {
    widest_ = std::max(widest_, tile.features);
    const std::string& counter = tile.of_rows ? row() : column();
    const int64_t extent = a_.extent(tile.of_rows ? a_.row : a_.column);
    const std::string pointer = arguments_.read(tile.value);
    bool four = tile.features % 4 == 0 && tile.address.coefficients.back() == 1 && tile.address.constant % 4 == 0;
    for (size_t d = 0; d < a_.shape.size(); ++d) four = four && nest_.coefficient(tile.address, int(d)) % 4 == 0;
    int64_t step = four ? 4 : 1, count = edge * tile.features / step, per_row = tile.features / step;
    unroll((count + threads - 1) / threads);
    open("for (int at_load = threadIdx.x; at_load < {}; at_load += {}) {{", count, threads);
    add("const {} feature = at_load % {}{};", index_, per_row, four ? " * 4" : "");
    add("const {} {} = {} + at_load / {};", index_, counter, begin, per_row);
    std::string place = fmt::format("{}[at_load / {}]", tile.name, per_row);
    if (four) {
      line("float four[4] = {};");
      add("if ({} < {}) load4(four, {} + {});", counter, extent, pointer, at(tile.address));
      for (int v = 0; v < 4; ++v) add("{}[feature + {}] = four[{}];", place, v, v);
    } else {
      add("{}[feature] = {} < {} ? {}[{}] : 0.0f;", place, counter, extent, pointer, at(tile.address));
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

  std::string expression(ValueId value) {
    const LocalOp& op = nest_.op(value);
    arguments_.note(op.body);
    const std::vector<int> dims = nest_.dims(op);
    ElementScope scope;
    for (size_t f = 0; f < dims.size(); ++f)
      scope.counters.push_back(dims[f] >= 0 && a_.extent(dims[f]) != 1 ? dims_[size_t(dims[f])] : "0");
    for (const Operand& operand : op.inputs)
      scope.integer.push_back(context_.lowered.local.values[size_t(operand.value)].type.dtype == DType::i32);
    scope.operand = [this, &op](int input) {
      ValueId read = op.inputs[size_t(input)].value;
      if (nest_.is_block(read)) return element(read);
      return fmt::format("{}[{}]", arguments_.read(read), at(nest_.read(op, input)));
    };
    if (mentions_random(op.body))
      scope.global_position =
          global_position_text(op, (*context_.lowered.reference)[op.node].type.shape, scope.counters);
    return body_text(op, op.body, scope);
  }

  void define(ValueId value) { add("const float {} = {};", element(value), expression(value)); }

  /// Opens the loops over a thread's elements of a tile and defines its row and column.
  void open_elements(const TileSize& size) {
    unrolled("i", size.rows / side);
    unrolled("j", size.columns / side);
    add("const {} {} = row_begin + ty + {} * i, {} = column_begin + tx + {} * j;", index_, row(), side, column(), side);
  }
  std::string inside() const {
    return fmt::format("{} < {} && {} < {}", row(), a_.extent(a_.row), column(), a_.extent(a_.column));
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
    open("for ({0} column_begin = 0; column_begin < {1}; column_begin += {2}) {{", index_, column_stop(size),
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
    return finish(name_, blocks,
                  fmt::format("// Scores exist for {} rows by {} columns at a time (online softmax).\n", size.rows,
                              size.columns));
  }

  /// Later tiles of a causal attention have more to do: they come first.
  std::string tile_number(int64_t tiles) const {
    if (tiles == 1) return "0";
    std::string number = fmt::format("(blockIdx.x % {})", tiles);
    return hides() ? fmt::format("({} - (int)blockIdx.x % {})", tiles - 1, tiles) : number;
  }

  /// Where the columns end that some row of the tile sees.
  std::string column_stop(const TileSize& size) {
    const int64_t extent = a_.extent(a_.column);
    if (!hides()) return fmt::format("{}", extent);
    add("const {} seen = row_begin + {};  // later {} are hidden from all of these {}", index_, size.rows + shift(),
        a_.names[size_t(a_.column)], a_.names[size_t(a_.row)]);
    add("const {} column_end = seen < {} ? seen : {};", index_, extent, extent);
    return "column_end";
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
    open("for ({0} {1} = {2}; {1} < {3}; {1} += {4}) {{", index_, swept_begin, sweep_start(g, swept),
         g.keeps_rows ? column_stop(size) : fmt::format("{}", a_.extent(swept_dim)), swept);
    barrier();
    for (const Tile& tile : tiles)
      if (tile.of_rows != g.keeps_rows) load(tile, swept, swept_begin);
    barrier();
    for (ValueId value : a_.scores)
      scores_part(part(value), tile_of(tiles, value, true), tile_of(tiles, value, false), size);
    block_elements(size, blocks);
    barrier();
    for (ValueId value : g.products) {
      const LocalOp& op = nest_.op(value);
      const int b = nest_.block_input(op);
      const Tile wanted{op.inputs[size_t(1 - b)].value, nest_.read(op, 1 - b), !g.keeps_rows, 0, ""};
      add_product(part(value), block(op.inputs[size_t(b)].value), find(tiles, wanted), g.keeps_rows, kept, swept);
    }
    close();
    for (size_t i = 0; i < g.summed.size(); ++i) close();
    for (ValueId value : g.products)
      store_part(value, g.keeps_rows, kept, kept_begin, fmt::format("{}[i][j]", part(value)));
    std::string of;
    for (ValueId value : g.products) of += (of.empty() ? "" : ", ") + tensor(value);
    return finish(name_ + (g.keeps_rows ? "_by_rows" : "_by_columns"), grid,
                  fmt::format("// {}: weights are made again for {} rows by {} columns at a time.\n", of, size.rows,
                              size.columns));
  }

  /// Rows before this see none of the tile's columns.
  std::string sweep_start(const Gradients& g, int64_t swept) {
    if (g.keeps_rows || !hides()) return "0";
    add("const {} seen_from = column_begin - {};  // earlier {} see none of these {}", index_, shift(),
        a_.names[size_t(a_.row)], a_.names[size_t(a_.column)]);
    return fmt::format("(seen_from > 0 ? seen_from / {0} * {0} : 0)", swept);
  }

  static const Tile& find(const std::vector<Tile>& tiles, const Tile& wanted) {
    for (const Tile& tile : tiles)
      if (tile.same(wanted)) return tile;
    throw InternalError("a tile of the kernel");
  }
  const Tile& tile_of(const std::vector<Tile>& tiles, ValueId scores, bool of_rows) const {
    const LocalOp& op = nest_.op(scores);
    const int row_input = nest_.row_input(op), input = of_rows ? row_input : 1 - row_input;
    return find(tiles, {op.inputs[size_t(input)].value, nest_.read(op, input), of_rows, 0, ""});
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

  Kernel finish(const std::string& name, int64_t blocks, const std::string& how) const {
    Kernel kernel;
    kernel.name = name;
    kernel.arguments = arguments_.list();
    // Left to itself the assembler makes room for one block more than registers do for, and spills.
    const int blocks_at_once = widest_ <= 64 ? 3 : 2;
    kernel.text = kernel_head(comment_ + how, name, int(threads), arguments_, blocks_at_once) + lines_.text() + "}\n";
    kernel.blocks = blocks;
    kernel.threads = int(threads);
    return kernel;
  }

  const KernelContext& context_;
  Nest nest_;
  const FusedAttention& a_;
  std::string name_, index_, comment_;
  std::vector<std::string> dims_;
  Arguments arguments_;
  Lines lines_;
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
