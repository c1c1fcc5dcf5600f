// What the printers of attention by tensor cores share: tiles in shared memory, fragments in registers, products of
// them, and a lane's elements of a part.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda/attention/attention_printer.h"
#include "codegen/cuda/plan/tensor_sizes.h"
#include "codegen/text/expression.h"

namespace hetsynth::codegen::cuda::attention {

class TensorPrinter : protected NestPrinter {
 protected:
  TensorPrinter(const KernelContext& context, const FusedAttention& attention, const std::string& name)
      : NestPrinter(context, attention, name) {
    if (indices_fit()) index_ = "int";
    half_ = memory_type(type_of(context.lowered.local, nest_.op(attention.scores[0]).inputs[0].value));
  }

  /// Whether 32 bits are enough for what lies in memory: nothing else has an address here. A number is drawn by the
  /// position of a score.
  bool indices_fit() const;

  // ---- tiles and fragments ----

  void shared(const Tile& tile, int64_t lines) {
    add("__shared__ __align__(16) {} {}[{}][{}];", half_, tile.name, lines, stride_of(tile.features));
  }
  void prologue() {
    add("const int warp = threadIdx.x / {0}, quad = threadIdx.x % {0} / 4, pair = threadIdx.x % 4 * 2;", warp_threads);
  }
  /// Loads a tile, 16 bytes at a time; what lies beyond the end is zero.
  void load(const Tile& tile, int64_t lines, const std::string& begin);
  static std::string fragment(const Tile& tile) {
    return tile.name.substr(0, tile.name.size() - std::string("tile").size()) + "fragment";
  }
  std::string fragment(ValueId value) const { return tensor(value) + "_fragment"; }
  std::string strip_begin(int64_t strips) const;
  std::string load_left_text(const std::string& to, const Tile& tile, int64_t strips) const;
  /// The warp's strips of a kept tile, for the whole kernel.
  void keep_fragments(const Tile& tile, int64_t strips);
  /// part[strip][panel] += the warp's strips of the kept tile x so many lines of the swept one from `begin` on.
  void scores_part(const std::string& name, const Tile& kept, const Tile& swept, const TensorSize& size, int64_t lines,
                   const std::string& begin);
  /// Rounds a part to the left operands of the next product: both have the same elements in the same lanes.
  void round_part(const std::string& to, const std::string& from, int64_t strips, int64_t columns);
  /// part[strip][panel] += left operands x lines of a tile from `begin` on.
  void add_product(const std::string& name, const std::string& left, const Tile& tile, int64_t strips, int64_t lines,
                   const std::string& begin);
  /// Stores part[strip][panel][cell], of the lines that the warp owns, after `text` made of it what is to be stored.
  void store_part(ValueId value, bool keeps_rows, int64_t strips, const std::string& begin, const std::string& text);

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
  bool hides_elements(ValueId value) const;
  /// `seen`: no element of the tile is hidden.
  void define_element(ValueId value, bool seen);
  /// What a product reads of a block, before it is rounded.
  ValueId unrounded(ValueId value) const {
    return is_rounding(nest_.op(value)) ? nest_.op(value).inputs[0].value : value;
  }
  bool guarded(const TensorSize& size, bool keeps_rows) const;
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

  std::string half_;  ///< type of what is multiplied: "bf16" or "fp16"
};

}  // namespace hetsynth::codegen::cuda::attention
