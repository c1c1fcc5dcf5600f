// How much memory a step sets aside for a call of cuDNN's attention, where cuDNN cannot be asked: a plan is made and
// its program generated on any machine.
#pragma once
#include <algorithm>
#include <cstdint>

namespace hetsynth::codegen::cuda {

struct AttentionSizes {
  int64_t batch = 1, heads = 0, key_heads = 0, queries = 0, keys = 0;
  int64_t features = 0, value_features = 0;
};

/// Bytes that suffice for what the graph itself stores and for what cuDNN 9.19 asks for beside it; the runtime takes a
/// plan that fits, and says so where none does (tests/cudnn/plans_test.cpp compares). Forward: next to nothing.
/// Backward: sums and the queries' gradient in float32; cuDNN's own engine for sm_80 takes 4 bytes for each feature of
/// a key of a query head, and 4 more where several query heads share a key head.
inline int64_t attention_workspace_bytes(const AttentionSizes& s, bool backward) {
  constexpr int64_t little = 4096, rounding = 64;
  if (!backward) return little;
  const int64_t rows = s.batch * s.heads, features = std::max(s.features, s.value_features);
  const int64_t longest = (std::max(s.queries, s.keys) + rounding - 1) / rounding * rounding;
  const int64_t by_feature = s.heads == s.key_heads ? 4 : 8;
  return little + rows * s.queries * 4 + rows * s.queries * s.features * 4 + rows * longest * features * by_feature;
}

}  // namespace hetsynth::codegen::cuda
