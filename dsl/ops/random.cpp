#include "dsl/ops/random.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// 1 - u lies in (0, 1], so that the logarithm is finite.
PointwiseRule normal_rule(const Shape& shape, int radius_stream, int angle_stream) {
  const Expr radius = sqrt(-2.0 * log(1.0 - Expr::random(radius_stream)));
  return {.tag = "random_normal", .body = radius * cos(2 * M_PI * Expr::random(angle_stream)), .shape = shape};
}

PointwiseRule uniform_rule(const Shape& shape, double low, double high, int stream) {
  return {.tag = "random_uniform", .body = low + (high - low) * Expr::random(stream), .shape = shape};
}

int next_stream() { return Trace::current().random_streams++; }

}  // namespace

Tensor random_normal(const std::vector<int64_t>& shape, std::source_location where) {
  CallScope scope(where);
  const int radius = next_stream(), angle = next_stream();
  return pointwise(normal_rule(shape, radius, angle), {}, where);
}

Tensor random_uniform(const std::vector<int64_t>& shape, double low, double high, std::source_location where) {
  CallScope scope(where);
  if (!(low < high) || !std::isfinite(high - low))
    fail_call({.tag = "random_uniform",
               .message = "there is no number to draw between these",
               .expected = "low < high, both finite",
               .found = fmt::format("low {} and high {}", low, high),
               .mend = "full(shape, value) is a tensor of one number"},
              {});
  return pointwise(uniform_rule(shape, low, high, next_stream()), {}, where);
}

OperatorInfo random_info() {
  return {"random",
          "Tensors drawn anew in every step.",
          {{pointwise_operator(normal_rule({5, 7}, 0, 1)), {}, {}},
           {pointwise_operator(normal_rule({2, 3, 4}, 5, 2)), {}, {}},
           {pointwise_operator(uniform_rule({3, 4}, -1.5, 2, 3)), {}, {}}}};
}

}  // namespace hetsynth
