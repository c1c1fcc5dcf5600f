#include "dsl/ops/reshape.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Both shapes read from the outermost dimension inwards, cut into common factors: [6,4] -> [2,12] has factors 2, 3, 4.
/// Where no common factor is left ([3,4] -> [4,3]) the stretch becomes one factor that must not be split, taken apart
/// by division and remainder.
class Refinement {
 public:
  Refinement(const Shape& from, const Shape& to) : sides_{Side(from), Side(to)} {
    while (sides_[0].advance() && sides_[1].advance()) {
      int64_t common = std::gcd(sides_[0].left, sides_[1].left);
      if (common > 1) {
        int factor = space_.add_factor(fmt::format("i{}", space_.factors.size()), common, FactorKind::parallel);
        for (Side& side : sides_) side.take(factor, common);
      } else {
        take_whole_stretch();
      }
    }
    space_.inputs = {sides_[0].access};
    space_.output = sides_[1].access;
  }

  const Space& space() const { return space_; }

 private:
  /// One of the two shapes and how far it has been read.
  struct Side {
    explicit Side(const Shape& shape) : shape(shape), left(1) { access.dims.resize(shape.size()); }

    /// Moves on to a dimension with something left; false at the end.
    bool advance() {
      while (left == 1 && dim + 1 < int(shape.size())) left = shape[++dim];
      return left > 1;
    }
    void take(int factor, int64_t size) {
      left /= size;
      access.dims[dim].terms.push_back({.factor = factor, .stride = left});
    }

    const Shape& shape;
    int dim = -1;
    int64_t left;
    Access access;
  };

  void take_whole_stretch() {
    Side reach[2] = {sides_[0], sides_[1]};
    int64_t product[2] = {reach[0].left, reach[1].left};
    while (product[0] != product[1]) {
      int behind = product[0] < product[1] ? 0 : 1;
      reach[behind].left = 1;
      reach[behind].advance();
      product[behind] *= reach[behind].left;
    }
    int factor = space_.add_factor(fmt::format("w{}", space_.factors.size()), product[0], FactorKind::whole);
    for (int s = 0; s < 2; ++s) take_whole(sides_[s], reach[s].dim, factor, product[s]);
  }

  /// Dimensions up to `last` are read off one linear index over `inside` elements.
  static void take_whole(Side& side, int last, int factor, int64_t inside) {
    while (true) {
      inside /= side.left;
      side.access.dims[side.dim].terms.push_back(
          {.factor = factor, .stride = 1, .divide = inside, .modulo = side.left});
      side.left = 1;
      if (side.dim == last) return;
      side.advance();
    }
  }

  Space space_;
  Side sides_[2];
};

class Reshape final : public Operator {
 public:
  explicit Reshape(Shape shape) : shape_(std::move(shape)) {}
  std::string_view tag() const override { return "reshape"; }
  std::string attributes() const override { return text(shape_); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    TensorType out{shape_, inputs[0].dtype};
    int64_t count = element_count(inputs[0].shape), known = 1;
    int64_t* open = nullptr;
    bool sane = true;
    for (int64_t& extent : out.shape) {
      if (extent == -1 && !open) {
        open = &extent;
      } else {
        sane = sane && extent >= 1 && extent <= count / known;  // so that the product cannot overflow
        if (sane) known *= extent;
      }
    }
    if (open && sane && count % known == 0) *open = count / known;
    if (!sane || element_count(out.shape) != count)
      throw UserError({.tag = "reshape",
                       .message = fmt::format("{} cannot become {}", text(inputs[0].shape), text(shape_)),
                       .expected = fmt::format("{} elements", count),
                       .found = sane && !open ? fmt::format("{} elements", known) : text(shape_),
                       .mend = "one extent may be -1: it is worked out from the others"});
    return out;
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    return Refinement(inputs[0].shape, output.shape).space();
  }

  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0); }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    return {reshape(v.output_gradient, v.inputs[0].shape())};
  }

 private:
  Shape shape_;
};

}  // namespace

Tensor reshape(Operand x, const std::vector<int64_t>& shape) {
  Tensor in = as_tensor(x);
  if (in.defined() && in.shape() == shape) return in;
  return emit(std::make_shared<Reshape>(shape), {in}, x.where);
}

OperatorInfo reshape_info() {
  auto sample = [](const Shape& from, const Shape& to) {
    return OperatorSample{std::make_shared<Reshape>(to), floats({from}), {}};
  };
  return {"reshape",
          "The same elements under another shape.",
          {sample({6, 4}, {2, 3, 4}), sample({2, 3, 4}, {6, -1}), sample({6, 4}, {2, 12}), sample({3, 4}, {4, 3}),
           sample({2, 1, 3}, {6}), sample({6, 4, 5}, {4, 6, 5}), sample({1, 1}, {}), sample({5}, {1, 5, 1})}};
}

}  // namespace hetsynth
