#include "dsl/ops/cross_entropy.h"

#include <fmt/format.h>

#include "dsl/ops/div.h"
#include "dsl/ops/max.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/pick.h"
#include "dsl/ops/sum.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

/// Where a loss counts: select(label is ignored, 0, value).
Expr counted(const CrossEntropyOptions& o, const Expr& label, const Expr& value) {
  return o.ignored_label ? select(equal(label, double(*o.ignored_label)), 0.0, value) : value;
}

/// Per position: log sum(e^x) - (1 - e) x[label] - e / V sum(x). Inputs: sum of exponentials, maximum, x[label], labels
/// if some are ignored, sum(x) if labels are smoothed.
PointwiseRule loss_rule(const CrossEntropyOptions& o, int rank, int64_t classes) {
  bool ignores = o.ignored_label.has_value();
  Expr loss = log(Expr::input(0)) + Expr::input(1) - (1 - o.label_smoothing) * Expr::input(2);
  if (o.label_smoothing == 0) loss = log(Expr::input(0)) + Expr::input(1) - Expr::input(2);
  if (o.label_smoothing != 0) loss = loss - (o.label_smoothing / double(classes)) * Expr::input(ignores ? 4 : 3);
  PointwiseRule rule{.tag = "nll_sum", .body = counted(o, Expr::input(3), loss)};
  if (ignores) rule.integers = {3};
  if (rank > 0) rule.reduce = FactorKind::sum;
  return rule;
}

/// Positions that count, at least 1.
PointwiseRule count_rule(const CrossEntropyOptions& o, int rank) {
  PointwiseRule rule{.tag = "label_count", .body = counted(o, Expr::input(0), 1.0), .integers = {0}};
  if (rank > 0) rule.reduce = FactorKind::sum;
  return rule;
}

/// dlogits = (softmax - wanted distribution) / positions times the gradient of the loss. Inputs: logits, maximum, sum
/// of exponentials, labels, gradient, and the number of positions where it is not known beforehand.
PointwiseRule gradient_rule(const CrossEntropyOptions& o, int rank, int64_t classes, double share) {
  Expr is_label = equal(Expr::input(3), Expr::factor(rank)), dy = Expr::input(4);
  Expr probability = exp(Expr::input(0) - Expr::input(1)) / Expr::input(2);
  double e = o.label_smoothing;
  Expr difference = probability - select(is_label, 1 - e, 0.0);
  if (e != 0) difference = difference - e / double(classes);
  Expr scaled = difference * (o.ignored_label ? dy / Expr::input(5) : share * dy);
  PointwiseRule rule{.tag = "cross_entropy_gradient",
                     .body = counted(o, Expr::input(3), scaled),
                     .lift = {0, 1, 1, 1, 0},
                     .integers = {3}};
  if (o.ignored_label) rule.lift.push_back(0);
  return rule;
}

void check(Tensor logits, Tensor labels, const CrossEntropyOptions& o) {
  checked_call({logits, labels}, [&] {
    require_dtype("cross_entropy", 0, {logits.shape(), logits.dtype()}, DType::f32);
    require_dtype("cross_entropy", 1, {labels.shape(), labels.dtype()}, DType::i32);
    require_rank_at_least("cross_entropy", 0, {logits.shape(), logits.dtype()}, 1);
  });
  Shape positions = logits.shape();
  positions.pop_back();
  if (labels.shape() != positions)
    fail_call(
        {.tag = "cross_entropy",
         .message = fmt::format("labels do not fit logits: {} and {}", text(labels.shape()), text(logits.shape())),
         .expected = "labels " + text(positions) + ", one for every row of logits",
         .found = text(labels.shape())},
        {logits, labels});
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1))
    fail_call({.tag = "cross_entropy",
               .message = "label_smoothing is out of range",
               .expected = "0 <= label_smoothing < 1",
               .found = fmt::format("{}", o.label_smoothing)},
              {logits, labels});
  require_index_range("cross_entropy", labels, logits.size(-1), "a row of logits");
  const Node& source = Trace::current().program[labels.node()];
  if (source.kind == NodeKind::input && source.data.ignored && source.data.ignored != o.ignored_label &&
      (*source.data.ignored < 0 || *source.data.ignored >= source.data.classes))
    fail_call({.tag = "cross_entropy",
               .message = fmt::format("labels may be {}, which is no class", *source.data.ignored),
               .expected = fmt::format("{{.ignored_label = {}}}", *source.data.ignored),
               .found = o.ignored_label ? fmt::format("{{.ignored_label = {}}}", *o.ignored_label) : "no ignored_label",
               .mend = "let the loss ignore what the input marks, or declare the input without .ignored"},
              {logits, labels});
}

}  // namespace

Tensor cross_entropy(Operand logits, Operand labels, CrossEntropyOptions options) {
  CallScope scope(logits.where);
  Tensor x = as_tensor(logits), y = as_tensor(labels), count;
  check(x, y, options);
  double share = 1.0 / double(element_count(y.shape()));
  Tensor largest = max(x, -1);
  Tensor total = pointwise({.tag = "exp_sum",
                            .body = exp(Expr::input(0) - Expr::input(1)),
                            .lift = {0, 1},
                            .reduce = FactorKind::sum,
                            .dims = {-1}},
                           {x, largest});
  std::vector<Tensor> inputs = {total, largest, pick(x, y)};
  if (options.ignored_label) inputs.push_back(y);
  if (options.label_smoothing != 0) inputs.push_back(sum(x, -1));
  Tensor loss = pointwise(loss_rule(options, y.rank(), x.size(-1)), inputs);
  if (options.ignored_label) {
    count = pointwise({.tag = "label_count_or_one", .body = maximum(1.0, Expr::input(0))},
                      {pointwise(count_rule(options, y.rank()), {y})});
    loss = loss / count;
  } else {
    loss = loss * share;
  }
  Trace::current().set_custom_vjp(loss, {x, y}, [=](const VjpArguments& v) {
    std::vector<Tensor> operands = {x, largest, total, y, v.output_gradient};
    if (count.defined()) operands.push_back(count);
    return std::vector<Tensor>{pointwise(gradient_rule(options, y.rank(), x.size(-1), share), operands), Tensor()};
  });
  return loss;
}

OperatorInfo cross_entropy_info() {
  CrossEntropyOptions both{.label_smoothing = 0.1, .ignored_label = 2};
  auto index = [](const Shape& shape) { return TensorType{shape, DType::i32}; };
  auto number = [](const Shape& shape) { return TensorType{shape, DType::f32}; };
  OperatorSample::Domain positive{0.5, 3}, labels{0, 3};
  return {"cross_entropy",
          "Mean negative log likelihood of labels.",
          {{pointwise_operator(loss_rule(both, 1, 4)),
            {number({5}), number({5}), number({5}), index({5}), number({5})},
            {positive, {}, {}, labels}},
           {pointwise_operator(count_rule(both, 2)), {index({3, 4})}, {labels}},
           {pointwise_operator(gradient_rule(both, 1, 4, 1)),
            {number({3, 4}), number({3}), number({3}), index({3}), number({}), number({})},
            {{}, {}, positive, labels, {}, positive}}}};
}

}  // namespace hetsynth
