#include "codegen/cuda/attention/tensor_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/attention/tensor_printer.h"
#include "dsl/cluster/device_models.h"

namespace hetsynth::codegen::cuda {
namespace {

using namespace attention;

class TensorKernels : TensorPrinter {
 public:
  TensorKernels(const KernelContext& context, const FusedAttention& attention, const std::string& name)
      : TensorPrinter(context, attention, name) {}

  StepKernels print() {
    return kernels([&] { return forward(); }, [&](const Gradients& gradients) { return backward(gradients); });
  }

 private:
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
    return is_half(type_of(program, block)) && is_rounding(nest.op(block)) &&
           nest.is_block(nest.op(block).inputs[0].value);
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

}  // namespace

bool has_tensor_cores(const std::string& architecture, DType operands) {
  return is_half(operands) && architecture_number(architecture) >= (operands == DType::bf16 ? 80 : 75);
}

bool needs_tensor_cores(const std::string& kernels) {
  // The prelude says how they multiply.
  const size_t begin = std::min(kernels.find("extern \"C\" __global__"), kernels.size());
  return std::ranges::any_of(half_formats, [&](const HalfFormat& format) {
    return kernels.find(fmt::format("mma_{}(", memory_type(format.dtype)), begin) != std::string::npos;
  });
}

bool attention_has_tensor_kernels(const FusedAttention& attention, const LocalProgram& program, const Layouts& layouts,
                                  const Program& reference, const std::string& architecture) {
  const Nest nest(attention, program, layouts, reference);
  const DType operands = type_of(program, nest.op(attention.scores[0]).inputs[0].value);
  if (!has_tensor_cores(architecture, operands)) return false;
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
  return TensorKernels(context, nest, name).print();
}

}  // namespace hetsynth::codegen::cuda
