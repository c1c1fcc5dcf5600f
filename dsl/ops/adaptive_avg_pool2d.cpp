#include "dsl/ops/adaptive_avg_pool2d.h"

#include <fmt/format.h>

#include "dsl/ops/avg_pool2d.h"
#include "dsl/ops/div.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/mean.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/support/window.h"

namespace hetsynth {
namespace {

/// [size, extent]: the weight of each position in each window. Position h lies in window y if h + 1 > y H / Y and
/// h < (y + 1) H / Y.
Tensor window_weights(int64_t extent, int64_t size) {
  Expr y = Expr::factor(0), h = Expr::factor(1);
  Expr begins = less(y * double(extent), (h + 1.0) * double(size));
  Expr ends = less(h * double(size), (y + 1.0) * double(extent));
  // Dimensions of extent 1 have no loop: their index is 0, as it should be.
  PointwiseRule rule{.tag = "adaptive_window", .body = begins * ends, .shape = {size, extent}};
  Tensor member = pointwise(rule, {});
  rule.reduce = FactorKind::sum;
  rule.dims = {1};
  rule.drop = std::vector<int>{};
  return member / pointwise(rule, {});
}

}  // namespace

Tensor adaptive_avg_pool2d(Operand x, Extent2d size) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  require_rank("adaptive_avg_pool2d", 0, {in}, 4, "an image [batch,channels,height,width]");
  constexpr int64_t largest = int64_t(1) << 20;
  if (size.height < 1 || size.width < 1 || std::max(size.height, size.width) > largest)
    fail_call({.tag = "adaptive_avg_pool2d",
               .message = "the size is out of range",
               .expected = "1 or more rows and columns",
               .found = fmt::format("{} x {}", size.height, size.width)},
              {in});
  int64_t height = in.size(2), width = in.size(3);
  if (size == Extent2d(height, width)) return in;
  if (size == Extent2d(1)) return mean(in, {2, 3}, true);
  if (height % size.height == 0 && width % size.width == 0)
    return avg_pool2d(in, {height / size.height, width / size.width});
  Tensor rows = einsum("nchw,yh->ncyw", in, window_weights(height, size.height));
  return einsum("ncyw,xw->ncyx", rows, window_weights(width, size.width));
}

OperatorInfo adaptive_avg_pool2d_info() {
  return {"adaptive_avg_pool2d", "Mean over windows that divide an image into a given number of parts.", {}};
}

}  // namespace hetsynth
