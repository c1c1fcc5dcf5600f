#include "dsl/ops/batchnorm.h"

#include <fmt/format.h>

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

/// State that follows a statistic of the batches: r = (1 - momentum) r + momentum * scale * now.
void keep_running(Tensor gain, const char* name, double start, Tensor now, double scale, double momentum,
                  const std::source_location& where) {
  Trace& trace = Trace::current();
  std::string full = trace.program[gain.node()].name + name;
  Tensor state = trace.add_leaf(NodeKind::state, full, {gain.shape(), DType::f32}, where);
  trace.program.nodes[state.node()].initializer = {Initializer::Kind::constant, start};
  Tensor flat = reshape(now, gain.shape());
  Tensor next =
      pointwise({.tag = "running_mean", .body = (1 - momentum) * Expr::input(0) + (momentum * scale) * Expr::input(1)},
                {state, flat});
  trace.set_name(next, trace.program[state.node()].name + ".next", {});
  trace.program.updates.push_back({state.node(), next.node()});
}

}  // namespace

Tensor batchnorm(Operand x, Operand gain, Operand bias, double eps, double momentum) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), g = as_tensor(gain), b = as_tensor(bias);
  check(in, g, b, momentum);
  std::vector<int> dims{0};
  for (int d = 2; d < in.rank(); ++d) dims.push_back(d);
  Normalized n = normalize("batchnorm", in, dims, g, b, in.rank() - 2, eps);
  keep_running(g, ".running_mean", 0, n.mean, 1, momentum, x.where);
  keep_running(g, ".running_variance", 1, n.squares, 1.0 / double(std::max<int64_t>(n.count - 1, 1)), momentum,
               x.where);
  return n.out;
}

OperatorInfo batchnorm_info() { return {"batchnorm", "Batch normalisation, with running statistics.", {}}; }

}  // namespace hetsynth
