// Attention on a device through cuDNN: softmax(scale q k^T) v and its gradient, in bf16 with sums in float32. The graph
// is that of the FlashAttention-2 algorithm (Dao 2023) as cuDNN recognises it: products, scale, mask, softmax.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "runtime/cuda/cudnn_graph.h"

namespace hetsynth::cuda {

/// How far apart elements lie, in elements; those of the last dimension, features, lie one behind the other.
struct AttentionStrides {
  int64_t batch = 0, head = 0, position = 0;
  auto operator<=>(const AttentionStrides&) const = default;
};

/// As codegen/interface/abi.h has it. Query head h sees key head h / (heads / key_heads).
struct AttentionShape {
  bool backward = false;
  int64_t batch = 1, heads = 0, key_heads = 0, queries = 0, keys = 0;
  int64_t features = 0;          ///< of queries and keys
  int64_t value_features = 0;    ///< of values and the result
  bool causal = false;           ///< a query sees the keys up to its own position
  float scale = 1;               ///< of scores
  bool keeps_statistics = true;  ///< forward: they are stored
  AttentionStrides q = {}, k = {}, v = {}, o = {};
  AttentionStrides o_gradient = {}, q_gradient = {}, k_gradient = {}, v_gradient = {};  ///< backward
  auto operator<=>(const AttentionShape&) const = default;
};

/// On the device, all at multiples of 16 bytes. bf16, but for the statistics: float32 [batch, heads, queries], of each
/// row of scores the logarithm of the sum of their exponentials.
struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;            ///< written; backward: read
  float* statistics = nullptr;  ///< written where they are kept; backward: read
  const void* o_gradient = nullptr;
  void *q_gradient = nullptr, *k_gradient = nullptr, *v_gradient = nullptr;
  char* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

/// "attention of 8 x 12 heads, 1024 queries x 1024 keys, 64 features, causal".
std::string description(const AttentionShape& shape);

/// The graph that cuDNN is given. `workspace`: what of it lies in the workspace beside cuDNN's own, in bytes.
struct AttentionGraph {
  CudnnGraph graph;
  int64_t sums = 0, queries_gradient = 0;  ///< places in the workspace: backward
  int64_t workspace_bytes = 0;
};
AttentionGraph attention_graph(const Cudnn& library, const AttentionShape& shape);

/// Attention of one device; plans are kept by shape. Called from one thread, on which the device's context is current.
class DeviceAttention {
 public:
  /// `library` must outlive it.
  explicit DeviceAttention(const Cudnn& library) : library_(library) {}
  ~DeviceAttention();
  DeviceAttention(const DeviceAttention&) = delete;
  DeviceAttention& operator=(const DeviceAttention&) = delete;
  /// Enqueues it. Returns "" or what failed and how to mend it.
  std::string enqueue(const AttentionShape& shape, const AttentionOperands& operands, void* stream);

 private:
  struct Planned {
    CudnnDescriptor plan;
    int64_t workspace_bytes = 0;  ///< cuDNN's own
    int64_t sums = 0, queries_gradient = 0, own_bytes = 0;
  };
  const Planned& planned(const AttentionShape& shape, int64_t workspace_bytes);
  void execute(const Planned& planned, const AttentionShape& shape, const AttentionOperands& operands, void* stream);

  const Cudnn& library_;
  void* handle_ = nullptr;
  CudnnDescriptor device_;
  std::map<AttentionShape, Planned> planned_;
};

}  // namespace hetsynth::cuda
