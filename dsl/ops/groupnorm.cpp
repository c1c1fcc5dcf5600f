#include "dsl/ops/groupnorm.h"

#include <fmt/format.h>

#include "dsl/ir/trace.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/normalize.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check(Tensor x, int64_t groups, Tensor gain, Tensor bias) {
  checked_call({x, gain, bias}, [&] {
    require_dtype("groupnorm", 0, {x.shape(), x.dtype()}, DType::f32);
    require_rank_at_least("groupnorm", 0, {x.shape(), x.dtype()}, 2);
  });
  int64_t channels = x.size(1);
  if (groups < 1 || channels % groups != 0)
    fail_call({.tag = "groupnorm",
               .message = fmt::format("{} groups do not divide {} channels", groups, channels),
               .expected = "a divisor",
               .found = fmt::format("{}", groups)},
              {x, gain, bias});
  for (Tensor t : {gain, bias})
    if (t.shape() != Shape{channels})
      fail_call({.tag = "groupnorm",
                 .message = fmt::format("{} has another width than the tensor has channels",
                                        t.node() == gain.node() ? "gain" : "bias"),
                 .expected = fmt::format("[{}], dimension 1 of {}", channels, text(x.shape())),
                 .found = text(t.shape())},
                {x, gain, bias});
}

}  // namespace

Tensor groupnorm(Operand x, int64_t groups, Operand gain, Operand bias, double eps) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x), g = as_tensor(gain), b = as_tensor(bias);
  check(in, groups, g, b);
  Shape shape = in.shape(), apart = shape, per_group{groups, shape[1] / groups};
  apart.erase(apart.begin() + 1);
  apart.insert(apart.begin() + 1, per_group.begin(), per_group.end());
  std::vector<int> dims;
  for (int d = 2; d < int(apart.size()); ++d) dims.push_back(d);
  Normalized n = normalize("groupnorm", reshape(in, apart), dims, reshape(g, per_group), reshape(b, per_group),
                           in.rank() - 2, eps);
  return reshape(n.out, shape);
}

OperatorInfo groupnorm_info() { return {"groupnorm", "Group normalisation.", {}}; }

}  // namespace hetsynth
