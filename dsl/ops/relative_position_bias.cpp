#include "dsl/ops/relative_position_bias.h"

#include <fmt/format.h>

#include <cmath>

#include "dsl/ops/embedding.h"
#include "dsl/ops/reshape.h"
#include "dsl/ops/support/pointwise.h"
#include "dsl/ops/support/shape_rules.h"
#include "dsl/ops/transpose.h"

namespace hetsynth {
namespace {

/// Buckets up to `distance` = |key - query|: one each below half of them, then by thresholds half * ratio^(k / half).
Expr bucket_of(const Expr& distance, int64_t buckets, int64_t max_distance) {
  int64_t single = buckets / 2, shared = buckets - single;
  Expr bucket = minimum(distance, double(single));
  double ratio = double(max_distance) / double(single);
  for (int64_t k = 1; k < shared; ++k) {
    double threshold = std::ceil(double(single) * std::pow(ratio, double(k) / double(shared)) - 1e-9);
    bucket = bucket + less_equal(threshold, distance);
  }
  return bucket;
}

PointwiseRule bucket_rule(int64_t queries, int64_t keys, int64_t buckets, const RelativeBuckets& o) {
  Expr query = Expr::factor(0), key = Expr::factor(1), zero = 0.0;
  Expr body = o.bidirectional ? bucket_of(maximum(key - query, query - key), buckets / 2, o.max_distance) +
                                    select(less(query, key), double(buckets / 2), zero)
                              : bucket_of(maximum(query - key, zero), buckets, o.max_distance);
  return {.tag = "relative_buckets", .body = body, .shape = {queries, keys}, .result = DType::i32};
}

/// Over (row, column) of a place and (row, column) of another.
PointwiseRule window_rule(int64_t size) {
  Expr row = Expr::factor(0) - Expr::factor(2) + double(size - 1);
  Expr column = Expr::factor(1) - Expr::factor(3) + double(size - 1);
  return {.tag = "window_offsets",
          .body = row * double(2 * size - 1) + column,
          .shape = {size, size, size, size},
          .result = DType::i32};
}

/// [.., heads] at these indices as [heads, ..].
Tensor bias_of(Tensor table, Tensor indices) { return transpose(embedding(table, indices), {2, 0, 1}); }

void require_table(const char* tag, Tensor table, bool fits, const std::string& expected) {
  if (fits) return;
  fail_call({.tag = tag, .message = "the table has another shape", .expected = expected, .found = text(table.shape())},
            {table});
}

}  // namespace

Tensor relative_position_bias(Operand table, int64_t queries, int64_t keys, RelativeBuckets options) {
  CallScope scope(table.where);
  Tensor in = as_tensor(table);
  int64_t least = options.bidirectional ? 4 : 2;
  require_table("relative_position_bias", in, in.rank() == 2 && in.size(0) >= least && in.size(0) % least == 0,
                fmt::format("[buckets, heads] with a multiple of {} buckets", least));
  if (options.max_distance <= in.size(0) / least)
    fail_call({.tag = "relative_position_bias",
               .message = "max_distance leaves nothing to share buckets",
               .expected = fmt::format("more than {}", in.size(0) / least),
               .found = std::to_string(options.max_distance)},
              {in});
  return bias_of(in, pointwise(bucket_rule(queries, keys, in.size(0), options), {}, table.where));
}

Tensor window_position_bias(Operand table, int64_t size) {
  CallScope scope(table.where);
  Tensor in = as_tensor(table);
  int64_t offsets = (2 * size - 1) * (2 * size - 1);
  require_table("window_position_bias", in, size >= 1 && in.rank() == 2 && in.size(0) == offsets,
                fmt::format("[{}, heads] for windows of {} x {}", offsets, size, size));
  Tensor indices = pointwise(window_rule(size), {}, table.where);
  return bias_of(in, reshape(indices, {size * size, size * size}));
}

OperatorInfo relative_position_bias_info() {
  return {"relative_position_bias",
          "Attention biases by distance.",
          {{pointwise_operator(bucket_rule(9, 7, 8, {true, 6})), {}, {}},
           {pointwise_operator(bucket_rule(5, 12, 6, {false, 9})), {}, {}},
           {pointwise_operator(window_rule(3)), {}, {}}}};
}

}  // namespace hetsynth
