#include "dsl/ops/binary_cross_entropy.h"

#include "dsl/ops/mul.h"
#include "dsl/ops/support/elementwise_loss.h"
#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

constexpr double least_logarithm = -100;

/// Both gradients, by their slopes over prediction (input 0) and target (input 1).
CustomVjp by_slopes(const std::string& tag, const Expr& prediction, const Expr& target) {
  return [=](const VjpArguments& v) {
    auto side = [&](const Expr& slope) {
      return pointwise({.tag = tag, .body = slope * Expr::input(2)}, {v.inputs[0], v.inputs[1], v.output_gradient});
    };
    return std::vector<Tensor>{side(prediction), side(target)};
  };
}

PointwiseRule probability_rule(int rank) {
  Expr p = Expr::input(0), t = Expr::input(1);
  Expr yes = maximum(log(p), least_logarithm), no = maximum(log(1.0 - p), least_logarithm);
  Expr spread = maximum(p * (1.0 - p), 1e-12);  // p is 0 or 1: the slope is large but finite
  return summed_loss("binary_cross_entropy", -(t * yes + (1.0 - t) * no), rank,
                     by_slopes("binary_cross_entropy_gradient", (p - t) / spread, no - yes));
}

/// max(x, 0) - x t + log(1 + e^-|x|), whose derivative is sigmoid(x) - t.
PointwiseRule logit_rule(int rank) {
  Expr x = Expr::input(0), t = Expr::input(1);
  return summed_loss("binary_cross_entropy_with_logits", maximum(x, 0.0) - x * t + log(1.0 + exp(-maximum(x, -x))),
                     rank, by_slopes("binary_cross_entropy_with_logits_gradient", 1.0 / (1.0 + exp(-x)) - t, -x));
}

}  // namespace

Tensor binary_cross_entropy(Operand probabilities, Operand targets) {
  return mean_loss("binary_cross_entropy", probabilities, targets, probability_rule);
}

Tensor binary_cross_entropy_with_logits(Operand logits, Operand targets) {
  return mean_loss("binary_cross_entropy_with_logits", logits, targets, logit_rule);
}

OperatorInfo binary_cross_entropy_info() {
  OperatorSample::Domain probability{0.1, 0.9}, target{0, 1};
  return {"binary_cross_entropy",
          "Losses of yes-or-no predictions.",
          {{pointwise_operator(probability_rule(2)), floats({{3, 5}, {3, 5}}), {probability, target}},
           {pointwise_operator(logit_rule(1)), floats({{7}, {7}}), {{-4, 4}, target}},
           {pointwise_operator(logit_rule(0)), floats({{}, {}}), {{-4, 4}, target}}}};
}

}  // namespace hetsynth
