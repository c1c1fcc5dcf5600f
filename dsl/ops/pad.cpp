#include "dsl/ops/pad.h"

#include <fmt/format.h>

#include "dsl/ops/broadcast.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/flip.h"
#include "dsl/ops/slice.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"

namespace hetsynth {
namespace {

class Pad final : public Operator {
 public:
  Pad(int dim, int64_t before, int64_t after, double value)
      : dim_(dim), before_(before), after_(after), value_(value) {}
  std::string_view tag() const override { return "pad"; }
  std::string attributes() const override {
    return fmt::format("dim {} +{} +{}{}", dim_, before_, after_, value_ == 0 ? "" : fmt::format(" of {}", value_));
  }

  TensorType infer(std::span<const TensorType> inputs) const override {
    int dim = normalize_dim("pad", dim_, inputs[0].shape);
    auto possible = [](int64_t padding) { return padding >= 0 && padding <= largest_element_count; };
    if (!possible(before_) || !possible(after_))
      throw UserError({.tag = "pad",
                       .message = "padding is negative or too large",
                       .expected = "0 or more",
                       .found = fmt::format("{} before, {} after", before_, after_),
                       .mend = "take elements away with slice"});
    TensorType out = inputs[0];
    out.shape[dim] += before_ + after_;
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Space space = space_of_result(output);
    space.inputs = {space.output};
    space.inputs[0].dims[normalize_dim("pad", dim_, inputs[0].shape)].offset = -before_;
    space.inputs[0].zero_outside = true;
    return space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    if (value_ == 0) return Expr::input(0);
    int dim = normalize_dim("pad", dim_, inputs[0].shape);
    Expr at = Expr::factor(dim), end = double(before_ + inputs[0].shape[size_t(dim)]);
    return select(less(at, double(before_)), value_, select(less(at, end), Expr::input(0), value_));
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    int dim = normalize_dim("pad", dim_, v.inputs[0].shape());
    return {slice(v.output_gradient, dim, before_, before_ + v.inputs[0].size(dim))};
  }

 private:
  int dim_;
  int64_t before_, after_;
  double value_;
};

/// `count` elements to put before (after) x: its mirror image without the edge, copies of the edge, or the other end.
Tensor border(Tensor x, int dim, int64_t count, bool before, PadMode mode) {
  int64_t extent = x.size(dim);
  if (mode == PadMode::replicate) {
    Shape shape = x.shape();
    shape[size_t(dim)] = count;
    return broadcast(before ? slice(x, dim, 0, 1) : slice(x, dim, extent - 1, extent), shape);
  }
  if (mode == PadMode::circular) return before ? slice(x, dim, extent - count, extent) : slice(x, dim, 0, count);
  return flip(before ? slice(x, dim, 1, count + 1) : slice(x, dim, extent - count - 1, extent - 1), dim);
}

}  // namespace

Tensor pad(Operand x, int dim, int64_t before, int64_t after, double value) {
  Tensor in = as_tensor(x);
  if (before == 0 && after == 0) return in;
  return emit(std::make_shared<Pad>(dim, before, after, value), {in}, x.where);
}

Tensor pad(Operand x, int dim, int64_t before, int64_t after, PadMode mode) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  int at = checked_call({in}, [&] { return normalize_dim("pad", dim, in.shape()); });
  int64_t most = mode == PadMode::replicate ? largest_element_count : in.size(at) - (mode == PadMode::reflect ? 1 : 0);
  if (before < 0 || after < 0 || before > most || after > most)
    fail_call({.tag = "pad",
               .message = fmt::format("dimension {} of {} has not enough elements to pad with", at, text(in.shape())),
               .expected = fmt::format("from 0 to {}", most),
               .found = fmt::format("{} before, {} after", before, after)},
              {in});
  std::vector<Tensor> parts;
  if (before > 0) parts.push_back(border(in, at, before, true, mode));
  parts.push_back(in);
  if (after > 0) parts.push_back(border(in, at, after, false, mode));
  return parts.size() == 1 ? in : concat(parts, at);
}

OperatorInfo pad_info() {
  auto sample = [](int dim, int64_t before, int64_t after, const Shape& shape, double value = 0) {
    return OperatorSample{std::make_shared<Pad>(dim, before, after, value), floats({shape}), {}};
  };
  return {"pad",
          "Values around one dimension.",
          {sample(0, 2, 1, {3, 4}), sample(-1, 0, 2, {2, 3}), sample(1, 1, 0, {2, 3}), sample(1, 2, 1, {2, 3}, -1.5)}};
}

}  // namespace hetsynth
