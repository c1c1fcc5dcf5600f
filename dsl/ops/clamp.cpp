#include "dsl/ops/clamp.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

PointwiseRule rule(double low, double high) {
  return {.tag = "clamp", .body = minimum(maximum(Expr::input(0), low), high), .vjp = [=](const VjpArguments& v) {
            Expr x = Expr::input(0), dy = Expr::input(1);
            return std::vector<Tensor>{
                pointwise({.tag = "clamp_gradient", .body = select(less(x, low), 0.0, select(less(high, x), 0.0, dy))},
                          {v.inputs[0], v.output_gradient})};
          }};
}

}  // namespace

Tensor clamp(Operand x, double low, double high) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  if (!(low <= high))
    fail_call({.tag = "clamp",
               .message = "there is no number between the limits",
               .expected = "low <= high",
               .found = fmt::format("{} and {}", low, high)},
              {in});
  return pointwise(rule(low, high), {in}, x.where);
}

OperatorInfo clamp_info() {
  return {"clamp",
          "Limits to values.",
          {{pointwise_operator(rule(-0.5, 1)), floats({{3, 7}}), {}},
           {pointwise_operator(rule(0, 0.25)), floats({{2, 1, 4}}), {}}}};
}

}  // namespace hetsynth
