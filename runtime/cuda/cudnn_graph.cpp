#include "runtime/cuda/cudnn_graph.h"

#include <fmt/format.h>

#include <utility>

namespace hetsynth::cuda {
namespace {

/// What tensors in memory lie at a multiple of.
constexpr int64_t alignment_bytes = 16, alignment_of_values = 4;
/// Numbers of tensors that are never in memory begin here.
constexpr int64_t first_between = 1000;

std::string failed(const Cudnn& library, int status, const std::string& asked) {
  char more[512] = "";
  library.last_error(more, sizeof more);
  const char* text = library.status_text(status);
  return fmt::format("{}: {}{}{}", asked, text ? text : fmt::format("status {}", status), more[0] ? ": " : "", more);
}

std::string name_of(cudnn::PointwiseMode mode) { return fmt::format("a pointwise operation (mode {})", int(mode)); }

}  // namespace

CudnnError::CudnnError(const Cudnn& library, int status, const std::string& asked)
    : std::runtime_error(failed(library, status, asked)) {}

// ---- descriptors ----

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, cudnn::DescriptorType type) : library_(&library) {
  if (const int status = library.descriptor_create(type, &handle_))
    throw CudnnError(library, status, fmt::format("cudnnBackendCreateDescriptor of type {}", int(type)));
}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : library_(other.library_), handle_(std::exchange(other.handle_, nullptr)) {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(handle_, other.handle_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_) library_->descriptor_destroy(handle_);
}

void CudnnDescriptor::set(cudnn::Attribute attribute, cudnn::ValueType type, int64_t count, const void* values) {
  if (const int status = library_->set(handle_, attribute, type, count, values))
    throw CudnnError(*library_, status, fmt::format("cudnnBackendSetAttribute {}", int(attribute)));
}

void CudnnDescriptor::finalize(const std::string& what) {
  if (const int status = library_->finalize(handle_))
    throw CudnnError(*library_, status, "cudnnBackendFinalize of " + what);
}

CudnnDescriptor cudnn_device(const Cudnn& library, void* handle) {
  CudnnDescriptor device(library, cudnn::device_properties);
  device.set(cudnn::device_handle, cudnn::of_handle, handle);
  device.finalize("the GPU's properties");
  return device;
}

CudnnDescriptor cudnn_device(const Cudnn& library, const std::string& json) {
  CudnnDescriptor device(library, cudnn::device_properties);
  device.set(cudnn::device_json, cudnn::of_char, int64_t(json.size()), json.data());
  device.finalize("the GPU's properties");
  return device;
}

// ---- tensors ----

CudnnGraph::Tensor CudnnGraph::add(int64_t number, const Four& extents, const Four& strides, cudnn::DataType type,
                                   bool is_virtual, bool by_value) {
  CudnnDescriptor& tensor = tensors_.emplace_back(library_, cudnn::tensor);
  tensor.set_type(cudnn::tensor_data_type, type);
  tensor.set(cudnn::tensor_extents, extents);
  tensor.set(cudnn::tensor_strides, strides);
  tensor.set(cudnn::tensor_id, cudnn::of_int64, number);
  tensor.set(cudnn::tensor_alignment, cudnn::of_int64, by_value ? alignment_of_values : alignment_bytes);
  tensor.set(cudnn::tensor_virtual, cudnn::of_boolean, is_virtual);
  tensor.set(cudnn::tensor_by_value, cudnn::of_boolean, by_value);
  tensor.finalize(fmt::format("tensor {} [{}, {}, {}, {}], strides {}, {}, {}, {}", number, extents[0], extents[1],
                              extents[2], extents[3], strides[0], strides[1], strides[2], strides[3]));
  return tensors_.size() - 1;
}

CudnnGraph::Tensor CudnnGraph::memory(int64_t number, const Four& extents, const Four& strides, cudnn::DataType type) {
  return add(number, extents, strides, type, false, false);
}

CudnnGraph::Tensor CudnnGraph::value(int64_t number) {
  return add(number, {1, 1, 1, 1}, {1, 1, 1, 1}, cudnn::float32, false, true);
}

CudnnGraph::Tensor CudnnGraph::between(const Four& extents, const Four& strides, cudnn::DataType type) {
  return add(first_between + int64_t(tensors_.size()), extents, strides, type, true, false);
}

CudnnGraph::Tensor CudnnGraph::between(const Four& extents, cudnn::DataType type) {
  return between(extents, {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1}, type);
}

// ---- operations ----

void CudnnGraph::operation(CudnnDescriptor mode, cudnn::DescriptorType type, const std::string& what,
                           std::initializer_list<std::pair<cudnn::Attribute, Tensor>> tensors) {
  CudnnDescriptor operation(library_, type);
  const bool has_mode = mode.handle() != nullptr;
  if (has_mode) {
    mode.finalize("the mode of " + what);
    operation.set(type == cudnn::matmul_operation      ? cudnn::matmul_of
                  : type == cudnn::reduction_operation ? cudnn::reduction_of
                                                       : cudnn::pointwise_of,
                  mode);
    modes_.push_back(std::move(mode));
  }
  for (const auto& [attribute, tensor] : tensors) operation.set(attribute, tensors_.at(tensor));
  operation.finalize(what);
  operations_.push_back(std::move(operation));
}

void CudnnGraph::multiply_matrices(Tensor a, Tensor b, Tensor result) {
  CudnnDescriptor mode(library_, cudnn::matmul);
  mode.set_type(cudnn::matmul_precision, cudnn::float32);
  operation(std::move(mode), cudnn::matmul_operation, "a matrix product",
            {{cudnn::matmul_a, a}, {cudnn::matmul_b, b}, {cudnn::matmul_c, result}});
}

void CudnnGraph::reduce(cudnn::ReductionMode how, Tensor x, Tensor result) {
  CudnnDescriptor mode(library_, cudnn::reduction);
  mode.set(cudnn::reduction_mode, cudnn::of_reduction, how);
  mode.set_type(cudnn::reduction_precision, cudnn::float32);
  operation(std::move(mode), cudnn::reduction_operation, "a reduction",
            {{cudnn::reduction_x, x}, {cudnn::reduction_y, result}});
}

void CudnnGraph::reshape(Tensor x, Tensor result) {
  operation({}, cudnn::reshape_operation, "a reshape", {{cudnn::reshape_x, x}, {cudnn::reshape_y, result}});
}

CudnnDescriptor CudnnGraph::pointwise_mode(cudnn::PointwiseMode how, cudnn::DataType precision,
                                           int64_t dimension) const {
  CudnnDescriptor mode(library_, cudnn::pointwise);
  mode.set(cudnn::pointwise_mode, cudnn::of_pointwise, how);
  mode.set_type(cudnn::pointwise_precision, precision);
  if (dimension >= 0) mode.set(cudnn::pointwise_axis, cudnn::of_int64, dimension);
  return mode;
}

void CudnnGraph::pointwise(cudnn::PointwiseMode mode, Tensor x, Tensor result) {
  operation(pointwise_mode(mode, cudnn::float32), cudnn::pointwise_operation, name_of(mode),
            {{cudnn::pointwise_x, x}, {cudnn::pointwise_y, result}});
}

void CudnnGraph::pointwise(cudnn::PointwiseMode mode, Tensor x, Tensor b, Tensor result) {
  operation(pointwise_mode(mode, cudnn::float32), cudnn::pointwise_operation, name_of(mode),
            {{cudnn::pointwise_x, x}, {cudnn::pointwise_b, b}, {cudnn::pointwise_y, result}});
}

void CudnnGraph::index_along(int64_t dimension, Tensor x, Tensor result) {
  operation(pointwise_mode(cudnn::index, cudnn::int32, dimension), cudnn::pointwise_operation, name_of(cudnn::index),
            {{cudnn::pointwise_x, x}, {cudnn::pointwise_y, result}});
}

void CudnnGraph::compare(Tensor x, Tensor b, Tensor result) {
  operation(pointwise_mode(cudnn::greater_or_equal, cudnn::boolean), cudnn::pointwise_operation,
            name_of(cudnn::greater_or_equal),
            {{cudnn::pointwise_x, x}, {cudnn::pointwise_b, b}, {cudnn::pointwise_y, result}});
}

void CudnnGraph::select(Tensor x, Tensor b, Tensor condition, Tensor result) {
  operation(pointwise_mode(cudnn::select, cudnn::float32), cudnn::pointwise_operation, name_of(cudnn::select),
            {{cudnn::pointwise_x, x},
             {cudnn::pointwise_b, b},
             {cudnn::pointwise_y, result},
             {cudnn::pointwise_t, condition}});
}

// ---- plans ----

CudnnPlan CudnnGraph::plan(const CudnnDescriptor& device, int64_t most_workspace_bytes) const {
  std::vector<void*> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.handle());
  CudnnDescriptor graph(library_, cudnn::operation_graph);
  graph.set(cudnn::graph_operations, cudnn::of_descriptor, int64_t(operations.size()), operations.data());
  graph.finalize("the graph");
  CudnnDescriptor heuristics(library_, cudnn::heuristics);
  heuristics.set(cudnn::heuristics_graph, graph);
  heuristics.set(cudnn::heuristics_mode, cudnn::of_heuristic, cudnn::mode_a);
  heuristics.set(cudnn::heuristics_device, device);
  heuristics.finalize("what cuDNN proposes");
  int64_t count = 0, found = 0;
  const auto results = [&](int64_t wanted, int64_t* number, void* values) {
    if (const int status =
            library_.get(heuristics.handle(), cudnn::heuristics_results, cudnn::of_descriptor, wanted, number, values))
      throw CudnnError(library_, status, "what cuDNN proposes");
  };
  results(0, &count, nullptr);
  std::vector<CudnnDescriptor> configurations;
  std::vector<void*> handles;
  for (int64_t i = 0; i < count; ++i)
    handles.push_back(configurations.emplace_back(library_, cudnn::engine_configuration).handle());
  if (count > 0) results(count, &found, handles.data());
  std::string problem = "it proposes none";
  for (int64_t i = 0; i < found; ++i) {
    CudnnPlan out{CudnnDescriptor(library_, cudnn::execution_plan)};
    try {
      out.plan.set(cudnn::plan_configuration, configurations[size_t(i)]);
      out.plan.set(cudnn::plan_device, device);
      out.plan.finalize("a plan");
    } catch (const CudnnError& e) {
      problem = e.what();
      continue;
    }
    int64_t values = 0;
    if (const int status = library_.get(out.plan.handle(), cudnn::plan_workspace_bytes, cudnn::of_int64, 1, &values,
                                        &out.workspace_bytes))
      throw CudnnError(library_, status, "a plan's workspace");
    if (out.workspace_bytes <= most_workspace_bytes) return out;
    problem = fmt::format("a plan asks for a workspace of {} bytes, and {} are set aside", out.workspace_bytes,
                          most_workspace_bytes);
  }
  throw std::runtime_error("cuDNN has no plan: " + problem);
}

}  // namespace hetsynth::cuda
