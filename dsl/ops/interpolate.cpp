#include "dsl/ops/interpolate.h"

#include <fmt/format.h>

#include <numeric>

#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/spaces.h"
#include "dsl/ops/support/window.h"

namespace hetsynth {
namespace {

/// A dimension of `blocks` blocks of `image` elements that becomes as many of `result` elements.
struct Resize {
  int64_t blocks = 1, image = 1, result = 1;
  Interpolation mode = Interpolation::nearest;

  /// Elements of neighbouring blocks are read only by means between them.
  int64_t reach() const { return mode == Interpolation::nearest ? 0 : 1; }
};

/// How much the element `at` of the image counts in the element `row` of the result. Both are numbers in the whole
/// dimension, given by block and place: rows of the result are block * result + place.
Expr weight(const Resize& r, const Expr& result_block, const Expr& result_place, const Expr& image_block,
            const Expr& image_place) {
  const double scale = double(r.image) / double(r.result);
  // A half is added before rounding down, so that a quotient just below a whole number becomes it.
  if (r.mode == Interpolation::nearest)
    return equal(floor((result_place * double(r.image) + 0.5) * (1 / double(r.result))), image_place);
  const Expr last = double(r.blocks * r.image - 1);
  const Expr position =
      minimum(maximum(result_block * double(r.image) + (result_place + 0.5) * scale - 0.5, Expr(0.0)), last);
  const Expr distance = position - (image_block * double(r.image) + image_place);
  return maximum(1.0 - maximum(distance, -distance), Expr(0.0));
}

/// [.., blocks, image, ..] to [.., blocks, result, ..] along dimensions dim and dim + 1; reversed: the gradient.
class Interpolate final : public Operator {
 public:
  Interpolate(Resize resize, int dim, bool reversed) : r_(resize), dim_(dim), reversed_(reversed) {}
  std::string_view tag() const override { return reversed_ ? "interpolate_gradient" : "interpolate"; }
  std::string attributes() const override {
    return fmt::format("{} dim {}: {} x {}->{}", r_.mode == Interpolation::nearest ? "nearest" : "bilinear", dim_,
                       r_.blocks, r_.image, r_.result);
  }

  TensorType infer(std::span<const TensorType> inputs) const override {
    require_dtype(tag(), 0, inputs[0], DType::f32);
    TensorType out = inputs[0];
    out.shape[size_t(dim_) + 1] = reversed_ ? r_.image : r_.result;
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    Space space = space_of_result(output);
    Access in = space.output;
    in.dims[size_t(dim_) + 1] = index_by(space.add_factor("k", inputs[0].shape[size_t(dim_) + 1], FactorKind::sum));
    if (r_.reach() > 0) {  // the block before, the own and the block behind
      DimIndex& block = in.dims[size_t(dim_)];
      block.terms.push_back({.factor = space.add_factor("d", 3, FactorKind::sum)});
      block.offset = -1;
      in.zero_outside = true;
    }
    space.inputs = {in};
    return space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    const int rank = int(inputs[0].shape.size());
    const Expr own_block = Expr::factor(dim_), own_place = Expr::factor(dim_ + 1), other_place = Expr::factor(rank);
    const Expr other_block = r_.reach() > 0 ? own_block + Expr::factor(rank + 1) - 1.0 : own_block;
    const Expr w = reversed_ ? weight(r_, other_block, other_place, own_block, own_place)
                             : weight(r_, own_block, own_place, other_block, other_place);
    return w * Expr::input(0);
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {emit(std::make_shared<Interpolate>(r_, dim_, !reversed_), {v.output_gradient})};
  }

 private:
  Resize r_;
  int dim_;
  bool reversed_;
};

/// Along one dimension.
Tensor resized(Tensor x, int dim, int64_t extent, Interpolation mode) {
  const int64_t from = x.size(dim);
  if (from == extent) return x;
  const int64_t blocks = std::gcd(from, extent);
  Shape parts = x.shape(), whole = x.shape();
  parts[size_t(dim)] = blocks;
  parts.insert(parts.begin() + dim + 1, from / blocks);
  whole[size_t(dim)] = extent;
  const Resize resize{blocks, from / blocks, extent / blocks, mode};
  return reshape(emit(std::make_shared<Interpolate>(resize, dim, false), {reshape(x, parts)}), whole);
}

Tensor resized_image(const char* tag, Tensor x, Extent2d size, Interpolation mode) {
  if (size.height < 1 || size.width < 1)
    fail_call({.tag = tag,
               .message = "an image has at least one element in each direction",
               .expected = "height and width of 1 or more",
               .found = fmt::format("{} x {}", size.height, size.width),
               .mend = "interpolate takes the size of the result, upsample how many times as large it is"},
              {x});
  return resized(resized(x, 2, size.height, mode), 3, size.width, mode);
}

}  // namespace

Tensor interpolate(Operand x, Extent2d size, Interpolation mode) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("interpolate", 0, {in}, 4, "an image [batch,channels,height,width]");
  return resized_image("interpolate", in, size, mode);
}

Tensor upsample(Operand x, Extent2d factor, Interpolation mode) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("upsample", 0, {in}, 4, "an image [batch,channels,height,width]");
  return resized_image("upsample", in, {in.size(2) * factor.height, in.size(3) * factor.width}, mode);
}

OperatorInfo interpolate_info() {
  const auto sample = [](const Resize& resize, int dim, bool reversed, const Shape& shape) {
    return OperatorSample{std::make_shared<Interpolate>(resize, dim, reversed), floats({shape}), {}};
  };
  const Resize doubled{4, 1, 2, Interpolation::bilinear}, other{2, 3, 2, Interpolation::bilinear},
      nearest{3, 2, 5, Interpolation::nearest};
  return {"interpolate",
          "Images of another size.",
          {sample(doubled, 2, false, {2, 3, 4, 1, 5}), sample(doubled, 1, true, {3, 4, 2}),
           sample(other, 0, false, {2, 3, 4}), sample(other, 1, true, {3, 2, 2}), sample(nearest, 1, false, {2, 3, 2}),
           sample(nearest, 0, true, {3, 5, 2})}};
}

}  // namespace hetsynth
