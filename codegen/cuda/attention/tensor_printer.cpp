#include "codegen/cuda/attention/tensor_printer.h"

#include <algorithm>

namespace hetsynth::codegen::cuda::attention {

bool TensorPrinter::indices_fit() const {
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

void TensorPrinter::load(const Tile& tile, int64_t lines, const std::string& begin) {
  const std::string& counter = tile.of_rows ? row() : column();
  const int64_t extent = a_.extent(tile.of_rows ? a_.row : a_.column), per_line = tile.features / 8;
  const std::string pointer = arguments_.read(tile.value);
  unroll((lines * per_line + block_threads - 1) / block_threads);
  open("for (int at_load = threadIdx.x; at_load < {}; at_load += {}) {{", lines * per_line, block_threads);
  add("const {} feature = at_load % {} * 8;", index_, per_line);
  add("const {} {} = {} + at_load / {};", index_, counter, begin, per_line);
  const std::string place = fmt::format("{}[at_load / {}] + feature", tile.name, per_line);
  const std::string copy = fmt::format("copy8({}, {});", place, pointer_text(pointer, at(tile.address)));
  if (extent % lines == 0) {
    line(copy);
  } else {
    open("if ({} < {}) {{", counter, extent);
    line(copy);
    lines_.close("} else {");
    lines_.deepen();
    unrolled("beyond", 8);
    add("{}[at_load / {}][feature + beyond] = ({})0.0f;", tile.name, per_line, half_);
    close();
    close();
  }
  close();
}

std::string TensorPrinter::strip_begin(int64_t strips) const {
  return strips == 1 ? fmt::format("warp * {}", strip_rows)
                     : fmt::format("warp * {} + strip * {}", strips * strip_rows, strip_rows);
}

std::string TensorPrinter::load_left_text(const std::string& to, const Tile& tile, int64_t strips) const {
  return fmt::format("load_left({}, {}[{}] + deep * {}, {});", to, tile.name, strip_begin(strips), depth,
                     stride_of(tile.features));
}

void TensorPrinter::keep_fragments(const Tile& tile, int64_t strips) {
  add("{} {}[{}][{}][8];", half_, fragment(tile), strips, tile.features / depth);
  unrolled("strip", strips);
  unrolled("deep", tile.features / depth);
  line(load_left_text(fragment(tile) + "[strip][deep]", tile, strips));
  close();
  close();
}

void TensorPrinter::scores_part(const std::string& name, const Tile& kept, const Tile& swept, const TensorSize& size,
                                int64_t lines, const std::string& begin) {
  add("float {}[{}][{}][4] = {{}};", name, size.strips, lines / panel_width);
  unrolled("deep", kept.features / depth);
  std::string left = fragment(kept) + "[strip][deep]";
  if (!size.kept_in_registers) {
    add("{} left[{}][8];", half_, size.strips);
    left = "left[strip]";
    unrolled("strip", size.strips);
    line(load_left_text(left, kept, size.strips));
    close();
  }
  unrolled("panel", lines / depth);
  add("{} right[8];", half_);
  add("load_right(right, {}[{}panel * {}] + deep * {}, {});", swept.name, begin, depth, depth,
      stride_of(swept.features));
  unrolled("strip", size.strips);
  add("mma_{}({}[strip][2 * panel], {}, right);", half_, name, left);
  add("mma_{}({}[strip][2 * panel + 1], {}, right + 4);", half_, name, left);
  close();
  close();
  close();
}

void TensorPrinter::round_part(const std::string& to, const std::string& from, int64_t strips, int64_t columns) {
  add("{} {}[{}][{}][8];", half_, to, strips, columns / depth);
  unrolled("strip", strips);
  unrolled("panel", columns / panel_width);
  for (int half : {0, 2})
    add("round2({}[strip][panel / 2] + panel % 2 * 4 + {}, {}[strip][panel] + {});", to, half, from, half);
  close();
  close();
}

void TensorPrinter::add_product(const std::string& name, const std::string& left, const Tile& tile, int64_t strips,
                                int64_t lines, const std::string& begin) {
  unrolled("deep", lines / depth);
  unrolled("panel", tile.features / depth);
  add("{} right[8];", half_);
  add("load_right_by_rows(right, {}[{}deep * {}] + panel * {}, {});", tile.name, begin, depth, depth,
      stride_of(tile.features));
  unrolled("strip", strips);
  add("mma_{}({}[strip][2 * panel], {}[strip][deep], right);", half_, name, left);
  add("mma_{}({}[strip][2 * panel + 1], {}[strip][deep], right + 4);", half_, name, left);
  close();
  close();
  close();
}

void TensorPrinter::store_part(ValueId value, bool keeps_rows, int64_t strips, const std::string& begin,
                               const std::string& text) {
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

bool TensorPrinter::hides_elements(ValueId value) const {
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

void TensorPrinter::define_element(ValueId value, bool seen) {
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

bool TensorPrinter::guarded(const TensorSize& size, bool keeps_rows) const {
  const int64_t kept = a_.extent(keeps_rows ? a_.row : a_.column);
  const int64_t swept = a_.extent(keeps_rows ? a_.column : a_.row);
  return kept % size.kept() != 0 || swept % size.swept != 0;
}

}  // namespace hetsynth::codegen::cuda::attention
