#include "dsl/ir/product_sum.h"

#include <algorithm>

namespace hetsynth {
namespace {

bool plain(const Access& access) {
  for (const DimIndex& dim : access.dims)
    for (const IndexTerm& t : dim.terms)
      if (!t.plain()) return false;
  return true;
}

/// The operands of a body of the form that is summed by strides; empty for other bodies.
std::vector<int> factors_of(const Space& space, const Expr& body) {
  std::vector<int> read;
  if (body.kind() == ExprKind::input) read = {body.index()};
  if (body.kind() == ExprKind::mul && body.arg(0).kind() == ExprKind::input && body.arg(1).kind() == ExprKind::input)
    read = {body.arg(0).index(), body.arg(1).index()};
  for (int input : read)
    if (!plain(space.inputs[size_t(input)])) return {};
  return read;
}

}  // namespace

double evaluation_cost(const Space& space, const Expr& body) {
  constexpr double terms_per_evaluation = 30;
  if (space.reduction() != FactorKind::sum || factors_of(space, body).empty()) return space.iterations();
  double elements = 1;
  for (const Factor& f : space.factors)
    if (!f.reduced()) elements *= double(f.size);
  return elements + space.iterations() / terms_per_evaluation;
}

ProductSum::ProductSum(const Space& space, const Expr& body, const std::vector<LocalArray>& inputs,
                       const std::vector<Range>& ranges, const std::vector<int>& reduced)
    : reduced_(reduced), depth_of_(space.factors.size(), -1) {
  if (space.reduction() != FactorKind::sum) return;
  for (size_t depth = 0; depth < reduced.size(); ++depth) {
    depth_of_[size_t(reduced[depth])] = int(depth);
    ranges_.push_back(ranges[size_t(reduced[depth])]);
  }
  for (int input : factors_of(space, body)) add_operand(space, input, inputs);
}

void ProductSum::add_operand(const Space& space, int input, const std::vector<LocalArray>& inputs) {
  Operand operand{&inputs[size_t(input)], &space.inputs[size_t(input)], std::vector<int64_t>(reduced_.size(), 0)};
  const std::vector<int64_t> strides = row_major_strides(operand.array->array.shape);
  for (size_t d = 0; d < operand.access->dims.size(); ++d)
    for (const IndexTerm& t : operand.access->dims[d].terms)
      if (int depth = depth_of_[size_t(t.factor)]; depth >= 0) operand.strides[size_t(depth)] += t.stride * strides[d];
  operands_.push_back(std::move(operand));
}

/// `start`: the index where all reduced factors are 0.
bool ProductSum::clip(const DimIndex& dim, int64_t start, int64_t extent) {
  const IndexTerm* only = nullptr;
  for (const IndexTerm& t : dim.terms) {
    if (depth_of_[size_t(t.factor)] < 0) continue;
    if (only || t.stride < 1) return false;
    only = &t;
  }
  if (!only) {
    if (start < 0 || start >= extent) box_[0].hi = box_[0].lo;
    return true;
  }
  Range& range = box_[size_t(depth_of_[size_t(only->factor)])];
  const auto first_not_below = [&](int64_t bound) {
    return bound <= start ? 0 : (bound - start + only->stride - 1) / only->stride;
  };
  range.lo = std::max(range.lo, first_not_below(0));
  range.hi = std::max(range.lo, std::min(range.hi, first_not_below(extent)));
  return true;
}

bool ProductSum::clip(const Operand& operand, const std::vector<int64_t>& index) {
  const Shape& shape = operand.array->array.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    const DimIndex& dim = operand.access->dims[d];
    int64_t start = dim.offset - operand.array->offset[d], least = 0, most = 0;
    for (const IndexTerm& t : dim.terms) {
      const int depth = depth_of_[size_t(t.factor)];
      if (depth < 0) {
        start += index[size_t(t.factor)] * t.stride;
        continue;
      }
      const int64_t first = ranges_[size_t(depth)].lo * t.stride, last = (ranges_[size_t(depth)].hi - 1) * t.stride;
      least += std::min(first, last);
      most += std::max(first, last);
    }
    if (start + least >= 0 && start + most < shape[d]) continue;
    if (!operand.access->zero_outside || !clip(dim, start, shape[d])) return false;
  }
  return true;
}

int64_t ProductSum::start(const Operand& operand, const std::vector<int64_t>& index) const {
  const Shape& shape = operand.array->array.shape;
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t at = operand.access->dims[d].offset - operand.array->offset[d];
    for (const IndexTerm& t : operand.access->dims[d].terms) {
      const int depth = depth_of_[size_t(t.factor)];
      at += (depth < 0 ? index[size_t(t.factor)] : box_[size_t(depth)].lo) * t.stride;
    }
    position = position * shape[d] + at;
  }
  return position;
}

void ProductSum::sum(size_t depth, const double* a, const double* b, double& total) const {
  const int64_t count = box_[depth].hi - box_[depth].lo;
  const int64_t step_a = operands_[0].strides[depth], step_b = b ? operands_[1].strides[depth] : 0;
  if (depth + 1 < box_.size()) {
    for (int64_t i = 0; i < count; ++i) sum(depth + 1, a + i * step_a, b ? b + i * step_b : nullptr, total);
  } else if (b) {
    for (int64_t i = 0; i < count; ++i) total += a[i * step_a] * b[i * step_b];
  } else {
    for (int64_t i = 0; i < count; ++i) total += a[i * step_a];
  }
}

std::optional<double> ProductSum::at(const std::vector<int64_t>& index) {
  box_ = ranges_;
  for (const Range& range : box_)
    if (range.lo >= range.hi) return 0.0;
  for (const Operand& operand : operands_)
    if (!clip(operand, index)) return std::nullopt;
  double total = 0;
  for (const Range& range : box_)
    if (range.lo >= range.hi) return total;
  const double* data[2] = {nullptr, nullptr};
  for (size_t j = 0; j < operands_.size(); ++j)
    data[j] = operands_[j].array->array.values.data() + start(operands_[j], index);
  sum(0, data[0], data[1], total);
  return total;
}

}  // namespace hetsynth
