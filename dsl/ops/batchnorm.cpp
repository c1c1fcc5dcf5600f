#include "dsl/ops/batchnorm.h"

#include <fmt/format.h>

#include "dsl/ir/evaluation.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/normalize.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check(Tensor x, Tensor gain, Tensor bias, double momentum) {
  checked_call({x, gain, bias}, [&] {
    require_dtype("batchnorm", 0, {x.shape(), x.dtype()}, DType::f32);
    require_rank_at_least("batchnorm", 0, {x.shape(), x.dtype()}, 2);
  });
  for (Tensor t : {gain, bias})
    if (t.shape() != Shape{x.size(1)})
      fail_call({.tag = "batchnorm",
                 .message = fmt::format("{} has another width than the tensor has channels",
                                        t.node() == gain.node() ? "gain" : "bias"),
                 .expected = fmt::format("[{}], dimension 1 of {}", x.size(1), text(x.shape())),
                 .found = text(t.shape())},
                {x, gain, bias});
  if (!(momentum >= 0 && momentum <= 1))
    fail_call({.tag = "batchnorm",
               .message = "the momentum is out of range",
               .expected = "0 <= momentum <= 1",
               .found = fmt::format("{}", momentum)},
              {x, gain, bias});
}

/// State that is called after the gain, and starts with all elements `start`.
Tensor running(Tensor gain, const char* name, double start, const std::source_location& where) {
  Trace& trace = Trace::current();
  std::string full = trace.program[gain.node()].name + name;
  Tensor state = trace.add_leaf(NodeKind::state, full, {gain.shape(), DType::f32}, where);
  trace.program.nodes[state.node()].initializer = {Initializer::Kind::constant, start};
  return state;
}

Tensor running_mean(Tensor gain, const std::source_location& where) { return running(gain, ".running_mean", 0, where); }
Tensor running_variance(Tensor gain, const std::source_location& where) {
  return running(gain, ".running_variance", 1, where);
}

/// Lets a state follow a statistic of the batches: r = (1 - momentum) r + momentum * scale * now.
void follow(Tensor state, Tensor now, double scale, double momentum) {
  Trace& trace = Trace::current();
  Tensor flat = reshape(now, state.shape());
  Tensor next =
      pointwise({.tag = "running_mean", .body = (1 - momentum) * Expr::input(0) + (momentum * scale) * Expr::input(1)},
                {state, flat});
  trace.set_name(next, trace.program[state.node()].name + ".next", {});
  trace.program.updates.push_back({state.node(), next.node()});
}

/// (x - mean) / sqrt(variance + eps) * gain + bias of [N, C, ...], with all of these by channel.
Tensor normalize_by_running(Tensor x, Tensor mean, Tensor variance, Tensor gain, Tensor bias, double eps) {
  const int lift = x.rank() - 2;
  const Expr scale = 1.0 / sqrt(Expr::input(2) + eps);
  return pointwise({.tag = "batchnorm",
                    .body = (Expr::input(0) - Expr::input(1)) * scale * Expr::input(3) + Expr::input(4),
                    .lift = {0, lift, lift, lift, lift}},
                   {x, mean, variance, gain, bias});
}

}  // namespace

Tensor batchnorm(Operand x, Operand gain, Operand bias, double eps, double momentum) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), g = as_tensor(gain), b = as_tensor(bias);
  check(in, g, b, momentum);
  if (is_evaluation(Trace::current())) {
    const Tensor mean = running_mean(g, x.where), variance = running_variance(g, x.where);
    return normalize_by_running(in, mean, variance, g, b, eps);
  }
  std::vector<int> dims{0};
  for (int d = 2; d < in.rank(); ++d) dims.push_back(d);
  Normalized n = normalize("batchnorm", in, dims, g, b, in.rank() - 2, eps);
  follow(running_mean(g, x.where), n.mean, 1, momentum);
  follow(running_variance(g, x.where), n.squares, 1.0 / double(std::max<int64_t>(n.count - 1, 1)), momentum);
  return n.out;
}

OperatorInfo batchnorm_info() { return {"batchnorm", "Batch normalisation, with running statistics.", {}}; }

}  // namespace hetsynth
