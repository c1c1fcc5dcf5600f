#include "codegen/passes/layout.h"

#include <algorithm>
#include <numeric>

namespace hetsynth::codegen {
namespace {

std::vector<int64_t> extents_of(const LocalValue& value) {
  std::vector<int64_t> out;
  for (const Range& range : value.ranges) out.push_back(range.hi - range.lo);
  return out;
}

/// Strides of a dense window whose dimensions lie in the given order, outermost first.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& extents, const std::vector<int>& order) {
  std::vector<int64_t> strides(extents.size(), 0);
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(extents[order[i]], 1);
  }
  return strides;
}

std::vector<int> natural_order(size_t rank) {
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

bool row_major(const Layout& layout, const std::vector<int64_t>& extents) {
  std::vector<int64_t> wanted = dense_strides(extents, natural_order(extents.size()));
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] > 1 && layout.strides[d] != wanted[d]) return false;
  return true;
}

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const LocalProgram& program) : program_(program), free_(program.values.size(), false) {
    out_.window.assign(program.ops.size(), false);
    for (size_t v = 0; v < program.values.size(); ++v) out_.of.push_back(dense(ValueId(v)));
    for (const LocalOp& op : program.ops) {
      // What reads a tensor that a loop fills takes the order of turns as it is: another would put a turn in many
      // pieces.
      const bool may_choose = !op.collective && !program.pinned[op.result], filled = follows_turn(op.output);
      if (may_choose && filled) turns_outside(op);
      free_[op.result] = may_choose && !filled;
    }
  }

  Layouts run() {
    for (size_t i = 0; i < program_.ops.size(); ++i)
      if (program_.ops[i].is_view()) out_.window[i] = make_window(program_.ops[i]);
    return std::move(out_);
  }

 private:
  Layout dense(ValueId v) const {
    const LocalValue& value = program_.values[v];
    Layout layout{v, 0, {}, dense_strides(extents_of(value), natural_order(value.ranges.size()))};
    for (const Range& range : value.ranges) layout.origin.push_back(range.lo);
    return layout;
  }

  /// What a loop fills turn by turn lies one turn behind the other, each in one piece.
  void turns_outside(const LocalOp& op) {
    std::vector<int> order = natural_order(op.output.dims.size());
    std::stable_partition(order.begin(), order.end(), [&](int d) { return op.output.dims[size_t(d)].per_turn != 0; });
    out_.of[op.result].strides = dense_strides(extents_of(program_.values[op.result]), order);
  }

  bool make_window(const LocalOp& op) {
    if (is_final(op.result)) return false;  // its storage will be a leaf's
    ValueId source = op.inputs[0].value;
    std::optional<Layout> found = window(op, out_.of[source]);
    if (!found || !acceptable(op.result, *found)) {
      // The source may still be free to lie in the order in which the result wants to read it.
      if (!free_[source] || out_.of[source].buffer != source) return false;
      std::optional<Layout> reordered = in_order_of(op);
      if (!reordered) return false;
      found = window(op, *reordered);
      if (!found || !acceptable(op.result, *found)) return false;
      out_.of[source] = *reordered;
    }
    free_[source] = false;
    free_[found->buffer] = false;
    free_[op.result] = false;
    out_.of[op.result] = *found;
    return true;
  }

  bool is_final(ValueId value) const {
    return std::any_of(program_.finals.begin(), program_.finals.end(),
                       [&](const auto& f) { return f.second == value; });
  }

  bool acceptable(ValueId value, const Layout& layout) const {
    return !program_.pinned[value] || row_major(layout, extents_of(program_.values[value]));
  }

  /// The window onto `source` that holds the view's result: the stride of every result dimension must be the same for
  /// all of its terms.
  std::optional<Layout> window(const LocalOp& op, const Layout& source) const {
    Address from = address(op.inputs[0].access, op.ranges, source.origin, source.strides);
    if (!from.affine() || from.per_turn != 0) return std::nullopt;
    const LocalValue& result = program_.values[op.result];
    Layout out = dense(op.result);
    out.buffer = source.buffer;
    out.offset = source.offset;
    std::vector<bool> indexed(op.factors.size(), false);
    for (size_t d = 0; d < op.output.dims.size(); ++d) {
      const DimIndex& index = op.output.dims[d];
      std::optional<int64_t> stride;
      for (const IndexTerm& term : index.terms) {
        int64_t coefficient = from.coefficients[term.factor];
        if (!term.plain() || indexed[term.factor] || coefficient % term.stride != 0) return std::nullopt;
        if (stride && *stride != coefficient / term.stride) return std::nullopt;
        stride = coefficient / term.stride;
        indexed[term.factor] = true;
      }
      out.strides[d] = stride.value_or(0);
    }
    // Element at the first local index of the result.
    int64_t first = from.constant;
    for (size_t d = 0; d < result.ranges.size(); ++d) {
      Address at = address(op.output.dims[d], op.ranges);
      first += (result.ranges[d].lo - at.constant) * out.strides[d];
    }
    out.offset += result.count() > 0 ? first : 0;
    return out;
  }

  /// The source's dense layout with dimensions in the order in which the result's dimensions mention them.
  std::optional<Layout> in_order_of(const LocalOp& op) const {
    ValueId source = op.inputs[0].value;
    const Access& access = op.inputs[0].access;
    std::vector<int> order;
    for (const DimIndex& index : op.output.dims)
      for (const IndexTerm& term : index.terms)
        for (size_t d = 0; d < access.dims.size(); ++d)
          for (const IndexTerm& read : access.dims[d].terms)
            if (read.factor == term.factor && !std::count(order.begin(), order.end(), int(d))) order.push_back(int(d));
    for (int d : natural_order(access.dims.size()))
      if (!std::count(order.begin(), order.end(), d)) order.insert(order.begin(), d);
    Layout layout = dense(source);
    layout.strides = dense_strides(extents_of(program_.values[source]), order);
    return layout;
  }

  const LocalProgram& program_;
  Layouts out_;
  std::vector<bool> free_;  ///< the order of dimensions may still be chosen
};

}  // namespace

Address Layouts::read(const LocalOp& op, int input) const {
  const Layout& layout = of[op.inputs[input].value];
  return address(op.inputs[input].access, op.ranges, layout.origin, layout.strides);
}

Address Layouts::written(const LocalOp& op) const {
  const Layout& layout = of[op.result];
  return address(op.output, op.ranges, layout.origin, layout.strides);
}

Layouts lay_out(const LocalProgram& program) { return LayoutBuilder(program).run(); }

}  // namespace hetsynth::codegen
