// Who computes attention between operands of 16 bits on a GPU.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

enum class AttentionBy : uint8_t {
  generated,  ///< kernels of the generator, everywhere
  cudnn,      ///< cuDNN where it can (of bf16: docs/cuda.md), generated kernels elsewhere
};
constexpr AttentionBy attention_by[] = {AttentionBy::generated, AttentionBy::cudnn};

/// As cluster files and plans have it.
inline std::string_view name(AttentionBy by) { return by == AttentionBy::cudnn ? "cudnn" : "generated"; }

inline std::vector<std::string> attention_by_names() {
  std::vector<std::string> out;
  for (AttentionBy by : attention_by) out.emplace_back(name(by));
  return out;
}

}  // namespace hetsynth
