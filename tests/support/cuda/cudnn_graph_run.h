// Carries out a graph of cuDNN's, operation by operation, in double: what cuDNN does in one kernel.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hetsynth::testing_support {

struct CudnnTensor {
  int64_t number = 0;
  int type = 0;
  std::array<int64_t, 4> extents{}, strides{};
  bool is_virtual = false, by_value = false;
  int64_t element_bytes() const;
};

struct CudnnOperation {
  int kind = 0;  ///< the descriptor's type
  int mode = 0;  ///< of a pointwise operation or a reduction
  int64_t axis = 0;
  /// x and b (or a and b of a product), the condition of a selection, what is written.
  CudnnTensor x, b, condition, y;
  bool has_b = false, has_condition = false;
};

/// `memory`: by number, what lies in memory; `values`: what is given by value. Returns "" or what the graph does not
/// make sense of.
std::string run_cudnn_graph(const std::vector<CudnnOperation>& operations, const std::map<int64_t, char*>& memory,
                            const std::map<int64_t, float>& values);

}  // namespace hetsynth::testing_support
