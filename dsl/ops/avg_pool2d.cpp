#include "dsl/ops/avg_pool2d.h"

#include <fmt/format.h>

#include "dsl/ops/support/row_blocks.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/window.h"

namespace hetsynth {
namespace {

double share(const Slides& s) { return 1.0 / double(s[0].window * s[1].window); }

PoolRule mean_rule(const Slides& slides);

/// Every position gets its share of the windows it lies in.
PoolRule gradient_rule(const Slides& slides) {
  PoolRule rule{.tag = "avg_pool2d_gradient", .slides = slides, .computes = PoolRule::Computes::image};
  rule.reads_image = {false};
  rule.body = [=](const SlideIndex& y, const SlideIndex& x) {
    Expr value = Expr::input(0) * share(slides);
    if (x.leaves_window) value = select(less(x.tap, double(slides[1].window)), value, 0.0);
    if (y.leaves_window) value = select(less(y.tap, double(slides[0].window)), value, 0.0);
    return value;
  };
  rule.vjp = [=](const VjpArguments& v) {
    return std::vector{emit(pool_operator(mean_rule(slides)), {v.output_gradient})};
  };
  return rule;
}

PoolRule mean_rule(const Slides& slides) {
  PoolRule rule{.tag = "avg_pool2d", .slides = slides, .reads_image = {true}};
  rule.body = [=](const SlideIndex&, const SlideIndex&) { return Expr::input(0) * share(slides); };
  rule.vjp = [=](const VjpArguments& v) {
    Slides whole{whole_strides(slides[0]), whole_strides(slides[1])};
    Tensor image = emit(pool_operator(gradient_rule(whole)), {v.output_gradient});
    return std::vector{without_added(image, slides)};
  };
  return rule;
}

}  // namespace

Tensor avg_pool2d(Operand x, Extent2d window, Pool2d o) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("avg_pool2d", 0, {in}, 4, "an image [batch,channels,height,width]");
  const WindowCall call{"avg_pool2d", window, o.stride.value_or(window), o.padding, 1};
  return over_row_blocks(call, o.row_blocks, in, {in}, 0, [](Tensor part, const WindowCall& windows) {
    return emit(pool_operator(mean_rule(slides_over(windows, part, {part}))), {part});
  });
}

OperatorInfo avg_pool2d_info() {
  auto sample = [](const Shape& shape, const Slides& slides) {
    return OperatorSample{pool_operator(mean_rule(slides)), floats({shape}), {}};
  };
  Slide plain{.image = 4, .window = 2, .result = 3}, apart{.image = 6, .window = 2, .result = 3, .stride = 2};
  Slide same{.image = 5, .window = 3, .result = 5, .padding = 1};
  Slide strided{.image = 6, .window = 3, .result = 3, .stride = 2, .padding = 1},
      rest{.image = 7, .window = 2, .result = 2, .stride = 3};
  return {"avg_pool2d",
          "Mean over windows of an image.",
          {sample({2, 3, 4, 6}, {plain, apart}), sample({2, 1, 5, 6}, {same, strided}),
           sample({1, 2, 7, 4}, {rest, plain})}};
}

}  // namespace hetsynth
