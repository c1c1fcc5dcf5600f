#include "dsl/ops/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ir/trace.h"
#include "dsl/ops/add.h"
#include "dsl/ops/causal_mask.h"
#include "dsl/ops/dropout.h"
#include "dsl/ops/einsum.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/softmax.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

void check(Tensor q, Tensor k, Tensor v, const AttentionOptions& o) {
  auto fail = [&](const char* message, const std::string& expected, const std::string& found) {
    fail_call({.tag = "attention", .message = message, .expected = expected, .found = found}, {q, k, v});
  };
  std::string shapes = joined({q.shape(), k.shape(), v.shape()}, ", ");
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    fail("query, key and value have four dimensions", "[batch, positions, heads, width] each", shapes);
  if (q.size(0) != k.size(0) || k.size(0) != v.size(0)) fail("batches differ", "one batch", shapes);
  if (k.size(1) != v.size(1)) fail("there are not as many keys as values", "one number of positions", shapes);
  if (q.size(3) != k.size(3)) fail("queries and keys differ in width", "one width", shapes);
  if (k.size(2) != v.size(2)) fail("keys and values differ in groups", "one number of groups", shapes);
  if (q.size(2) % k.size(2) != 0)
    fail("heads do not fall into groups", fmt::format("a multiple of {} heads", k.size(2)),
         fmt::format("{}", q.size(2)));
  if (o.causal && q.size(1) != k.size(1))
    fail("causal attention needs as many keys as queries", fmt::format("{} keys", q.size(1)),
         fmt::format("{}", k.size(1)));
  if (!(o.scale >= 0)) fail("scale is out of range", "0 (1 / sqrt(width)) or more", fmt::format("{}", o.scale));
}

/// The bias against scores [batch, groups, heads of a group, queries, keys].
Tensor by_groups(Tensor bias, int64_t groups, int64_t shared) {
  if (bias.rank() < 3) return bias;
  Shape shape = bias.shape();
  size_t at = shape.size() - 3;
  bool per_head = shape[at] != 1;
  shape[at] = per_head ? shared : 1;
  shape.insert(shape.begin() + int64_t(at), per_head ? groups : 1);
  return reshape(bias, shape);
}

}  // namespace

Tensor attention(Operand query, Operand key, Operand value, AttentionOptions options) {
  CallScope scope(query.where);
  Tensor q = as_tensor(query), k = as_tensor(key), v = as_tensor(value), bias = options.bias;
  check(q, k, v, options);
  int64_t heads = q.size(2), groups = k.size(2), shared = heads / groups;
  Shape scores_shape = {q.size(0), heads, q.size(1), k.size(1)};
  if (bias.defined() && checked_call({q, k, bias}, [&] {
                          return broadcast_shapes("attention", {scores_shape, bias.shape()});
                        }) != scores_shape)
    fail_call({.tag = "attention",
               .message = "the bias does not fit the scores",
               .expected = "a shape that broadcasts to " + text(scores_shape),
               .found = text(bias.shape())},
              {q, k, bias});
  bool grouped = shared > 1;
  if (grouped) q = reshape(q, {q.size(0), q.size(1), groups, shared, q.size(3)});
  double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(double(k.size(3)));
  Tensor scores = einsum(grouped ? "btgrd,bsgd->bgrts" : "bthd,bshd->bhts", q, k) * scale;
  if (bias.defined()) scores = scores + (grouped ? by_groups(bias, groups, shared) : bias);
  if (options.causal) scores = causal_mask(scores);
  Tensor weights = dropout(softmax(scores, -1), options.dropout);
  Tensor mixed = einsum(grouped ? "bgrts,bsge->btgre" : "bhts,bshe->bthe", weights, v);
  return grouped ? reshape(mixed, {scores_shape[0], scores_shape[2], heads, v.size(3)}) : mixed;
}

OperatorInfo attention_info() { return {"attention", "Scaled dot-product attention, with groups of heads.", {}}; }

}  // namespace hetsynth
