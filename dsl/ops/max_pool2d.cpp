#include "dsl/ops/max_pool2d.h"

#include <fmt/format.h>

#include <limits>

#include "dsl/ops/support/row_blocks.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/window.h"

namespace hetsynth {
namespace {

constexpr double lowest = std::numeric_limits<float>::lowest();

/// The value where the window lies inside of the image, else `outside`.
Expr inside(const Slides& s, const SlideIndex& y, const SlideIndex& x, Expr value, const Expr& outside) {
  auto guard = [&](const Slide& slide, const SlideIndex& index) {
    if (!index.leaves_image) return;
    value = select(less(index.at, 0.0), outside, select(less(index.at, double(slide.image)), value, outside));
  };
  guard(s[1], x);
  guard(s[0], y);
  return value;
}

/// Number of a place in the window, row-major; the same whether taps are looped over or composed of strides.
Expr place(const Slides& s, const SlideIndex& y, const SlideIndex& x) {
  int64_t row = (s[1].window + s[1].stride - 1) / s[1].stride * s[1].stride;
  return y.tap * double(row) + x.tap;
}

PoolRule gradient_rule(const Slides& slides);

/// result[n,c,y,x] = image at the place that `first` names.
PoolRule taken_rule(const Slides& slides) {
  PoolRule rule{.tag = "max_pool2d_taken", .slides = slides, .reads_image = {true, false}};
  rule.body = [=](const SlideIndex& y, const SlideIndex& x) {
    return select(equal(Expr::input(1), -place(slides, y, x)), Expr::input(0), 0.0);
  };
  rule.vjp = [=](const VjpArguments& v) {
    return std::vector{emit(pool_operator(gradient_rule(slides)), {v.inputs[1], v.output_gradient}), Tensor()};
  };
  return rule;
}

/// Every window hands its gradient to the place that `first` names.
PoolRule gradient_rule(const Slides& slides) {
  PoolRule rule{.tag = "max_pool2d_gradient", .slides = slides, .computes = PoolRule::Computes::image};
  rule.reads_image = {false, false};
  rule.body = [=](const SlideIndex& y, const SlideIndex& x) {
    return select(equal(Expr::input(0), -place(slides, y, x)), Expr::input(1), 0.0);
  };
  rule.vjp = [=](const VjpArguments& v) {
    return std::vector{Tensor(), emit(pool_operator(taken_rule(slides)), {v.output_gradient, v.inputs[0]})};
  };
  return rule;
}

/// Minus the number of the first place in each window that holds the maximum: where several do, the largest of these.
PoolRule first_rule(const Slides& slides) {
  PoolRule rule{.tag = "max_pool2d_first", .slides = slides, .reduce = FactorKind::max, .reads_image = {true, false}};
  rule.body = [=](const SlideIndex& y, const SlideIndex& x) {
    Expr found = select(equal(Expr::input(0), Expr::input(1)), -place(slides, y, x), lowest);
    return inside(slides, y, x, found, lowest);
  };
  rule.vjp = [](const VjpArguments&) { return std::vector<Tensor>(2); };
  return rule;
}

PoolRule max_rule(const Slides& slides) {
  PoolRule rule{.tag = "max_pool2d", .slides = slides, .reduce = FactorKind::max, .reads_image = {true}};
  rule.body = [=](const SlideIndex& y, const SlideIndex& x) { return inside(slides, y, x, Expr::input(0), lowest); };
  rule.vjp = [=](const VjpArguments& v) {
    Tensor first = emit(pool_operator(first_rule(slides)), {v.inputs[0], v.output});
    Slides whole{whole_strides(slides[0]), whole_strides(slides[1])};
    Tensor image = emit(pool_operator(gradient_rule(whole)), {first, v.output_gradient});
    return std::vector{without_added(image, slides)};
  };
  return rule;
}

}  // namespace

Tensor max_pool2d(Operand x, Extent2d window, Pool2d o) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("max_pool2d", 0, {in}, 4, "an image [batch,channels,height,width]");
  const WindowCall call{"max_pool2d", window, o.stride.value_or(window), o.padding, 1};
  if (2 * o.padding.height > window.height || 2 * o.padding.width > window.width)
    fail_call({.tag = "max_pool2d",
               .message = "padding is more than half of the window: some windows would hold nothing",
               .expected = fmt::format("at most {} x {}", window.height / 2, window.width / 2),
               .found = fmt::format("{} x {}", o.padding.height, o.padding.width)},
              {in});
  return over_row_blocks(call, o.row_blocks, in, {in}, lowest, [](Tensor part, const WindowCall& windows) {
    return emit(pool_operator(max_rule(slides_over(windows, part, {part}))), {part});
  });
}

OperatorInfo max_pool2d_info() {
  auto sample = [](const Shape& shape, const Slides& slides) {
    return OperatorSample{pool_operator(max_rule(slides)), floats({shape}), {}};
  };
  Slide plain{.image = 4, .window = 2, .result = 3}, apart{.image = 6, .window = 2, .result = 3, .stride = 2};
  Slide same{.image = 5, .window = 3, .result = 5, .padding = 1};
  Slide strided{.image = 6, .window = 3, .result = 3, .stride = 2, .padding = 1},
      rest{.image = 7, .window = 2, .result = 2, .stride = 3};
  return {"max_pool2d",
          "Maximum over windows of an image.",
          {sample({2, 3, 4, 6}, {plain, apart}), sample({2, 1, 5, 6}, {same, strided}),
           sample({1, 2, 7, 4}, {rest, plain}), sample({2, 2, 6, 6}, {apart, strided})}};
}

}  // namespace hetsynth
