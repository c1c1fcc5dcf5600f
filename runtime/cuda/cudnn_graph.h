// Graphs of cuDNN: tensors of four dimensions, operations between them, and a plan that carries them out in one go.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_api.h"
#include "runtime/cuda/cudnn_numbers.h"

namespace hetsynth::cuda {

/// A call of cuDNN that failed: what was asked of it, and its own words.
class CudnnError : public std::runtime_error {
 public:
  CudnnError(const Cudnn& library, int status, const std::string& asked);
};

/// A descriptor of cuDNN's, given back with this object. Functions throw CudnnError.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const Cudnn& library, cudnn::DescriptorType type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();

  void set(cudnn::Attribute attribute, cudnn::ValueType type, int64_t count, const void* values);
  template <class T>
  void set(cudnn::Attribute attribute, cudnn::ValueType type, const T& value) {
    set(attribute, type, 1, &value);
  }
  void set(cudnn::Attribute attribute, std::span<const int64_t> values) {
    set(attribute, cudnn::of_int64, int64_t(values.size()), values.data());
  }
  void set(cudnn::Attribute attribute, const CudnnDescriptor& other) {
    set(attribute, cudnn::of_descriptor, other.handle_);
  }
  void set_type(cudnn::Attribute attribute, int data_type) { set(attribute, cudnn::of_data_type, data_type); }
  /// What is left to say: `what` names the descriptor in errors.
  void finalize(const std::string& what);
  void* handle() const { return handle_; }

 private:
  const Cudnn* library_ = nullptr;
  void* handle_ = nullptr;
};

/// The GPU that a handle of cuDNN's belongs to.
CudnnDescriptor cudnn_device(const Cudnn& library, void* handle);
/// A GPU as cuDNN writes it down (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), which need not be there.
CudnnDescriptor cudnn_device(const Cudnn& library, const std::string& json);

struct CudnnPlan {
  CudnnDescriptor plan;
  int64_t workspace_bytes = 0;
};

/// Extents, or strides in elements.
using Four = std::array<int64_t, 4>;

class CudnnGraph {
 public:
  explicit CudnnGraph(const Cudnn& library) : library_(library) {}

  /// A tensor by its place among all of the graph.
  using Tensor = size_t;
  /// In memory: its place is given at execution, under the number.
  Tensor memory(int64_t number, const Four& extents, const Four& strides, cudnn::DataType type);
  /// One float32 that is given by value at execution, under the number.
  Tensor value(int64_t number);
  /// What one operation leaves to others, and is never stored.
  Tensor between(const Four& extents, const Four& strides, cudnn::DataType type = cudnn::float32);
  /// The same with the last dimension innermost.
  Tensor between(const Four& extents, cudnn::DataType type = cudnn::float32);

  void multiply_matrices(Tensor a, Tensor b, Tensor result);
  void reduce(cudnn::ReductionMode mode, Tensor x, Tensor result);
  /// The same elements under the other's extents and strides.
  void reshape(Tensor x, Tensor result);
  void pointwise(cudnn::PointwiseMode mode, Tensor x, Tensor result);
  void pointwise(cudnn::PointwiseMode mode, Tensor x, Tensor b, Tensor result);
  /// Each element's own index along the dimension, as int32.
  void index_along(int64_t dimension, Tensor x, Tensor result);
  /// x >= b, as booleans, of int32.
  void compare(Tensor x, Tensor b, Tensor result);
  /// x where `condition`, else b.
  void select(Tensor x, Tensor b, Tensor condition, Tensor result);

  /// The first plan that cuDNN proposes for the GPU, can make, and that asks for no more workspace. Throws CudnnError,
  /// std::runtime_error.
  CudnnPlan plan(const CudnnDescriptor& device, int64_t most_workspace_bytes) const;

 private:
  Tensor add(int64_t number, const Four& extents, const Four& strides, cudnn::DataType type, bool is_virtual,
             bool by_value);
  void operation(CudnnDescriptor mode, cudnn::DescriptorType type, const std::string& what,
                 std::initializer_list<std::pair<cudnn::Attribute, Tensor>> tensors);
  CudnnDescriptor pointwise_mode(cudnn::PointwiseMode mode, cudnn::DataType precision, int64_t dimension = -1) const;

  const Cudnn& library_;
  std::vector<CudnnDescriptor> tensors_, modes_, operations_;
};

}  // namespace hetsynth::cuda
