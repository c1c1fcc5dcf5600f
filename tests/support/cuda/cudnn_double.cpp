// cuDNN's double: graphs are kept as they are described and carried out operation by operation, as operations of their
// stream like all others. What the real one does not take (tests/cudnn holds it against the same graphs) gets no plan.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "runtime/cuda/cudnn_numbers.h"
#include "tests/support/cuda/cudnn_graph_run.h"
#include "tests/support/cuda/double_machine.h"

namespace hetsynth::testing_support {
namespace {

namespace cudnn = cuda::cudnn;

constexpr int bad_parameter = 2000, not_supported = 3000, execution_failed = 5000;
/// What plans ask for.
constexpr int64_t forward_workspace_bytes = 256, backward_workspace_bytes = 768;
constexpr int64_t most_features = 128, feature_multiple = 8;

thread_local std::string last_error;

struct Descriptor {
  explicit Descriptor(int t) : type(t) {}
  int type;
  bool finalized = false;
  std::map<int, std::vector<char>> values;                              ///< by attribute
  std::map<int, std::vector<std::shared_ptr<Descriptor>>> descriptors;  ///< by attribute

  template <class T>
  std::vector<T> get(int attribute) const {
    const auto found = values.find(attribute);
    std::vector<T> out(found == values.end() ? 0 : found->second.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), found->second.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T>
  T one(int attribute, T otherwise = {}) const {
    const std::vector<T> all = get<T>(attribute);
    return all.empty() ? otherwise : all.front();
  }
};
/// What a handle of a descriptor points to.
using Holder = std::shared_ptr<Descriptor>;
Holder& holder(void* handle) { return *static_cast<Holder*>(handle); }

struct Handle {
  Gpu* gpu = nullptr;
  Stream* stream = nullptr;
};

int refuse(int status, const std::string& why) {
  last_error = why;
  return status;
}

size_t bytes_of(int type) {
  switch (type) {
    case cudnn::of_boolean:
    case cudnn::of_char:
      return 1;
    case cudnn::of_handle:
    case cudnn::of_int64:
    case cudnn::of_pointer:
      return 8;
    default:
      return 4;
  }
}

int set(void* handle, int attribute, int type, int64_t count, const void* values) {
  Descriptor& d = *holder(handle);
  if (d.finalized) return refuse(bad_parameter, "the descriptor is finalized");
  if (type == cudnn::of_descriptor) {
    auto& list = d.descriptors[attribute];
    list.clear();
    for (int64_t i = 0; i < count; ++i) {
      const Holder& other = holder(static_cast<void* const*>(values)[i]);
      if (!other->finalized) return refuse(bad_parameter, "an attribute is not finalized");
      list.push_back(other);
    }
    return 0;
  }
  const auto* bytes = static_cast<const char*>(values);
  d.values[attribute].assign(bytes, bytes + size_t(count) * bytes_of(type));
  return 0;
}

CudnnTensor tensor_of(const Descriptor& d) {
  CudnnTensor out;
  out.number = d.one<int64_t>(cudnn::tensor_id);
  out.type = d.one<int>(cudnn::tensor_data_type);
  out.is_virtual = d.one<char>(cudnn::tensor_virtual) != 0;
  out.by_value = d.one<char>(cudnn::tensor_by_value) != 0;
  std::ranges::copy(d.get<int64_t>(cudnn::tensor_extents), out.extents.begin());
  std::ranges::copy(d.get<int64_t>(cudnn::tensor_strides), out.strides.begin());
  return out;
}

CudnnOperation operation_of(const Descriptor& d) {
  CudnnOperation out;
  out.kind = d.type;
  const auto tensor = [&](int attribute, CudnnTensor& to) {
    const auto found = d.descriptors.find(attribute);
    if (found == d.descriptors.end()) return false;
    to = tensor_of(*found->second.front());
    return true;
  };
  const auto mode = [&](int attribute) -> const Descriptor& { return *d.descriptors.at(attribute).front(); };
  switch (d.type) {
    case cudnn::matmul_operation:
      tensor(cudnn::matmul_a, out.x), tensor(cudnn::matmul_b, out.b), tensor(cudnn::matmul_c, out.y);
      out.has_b = true;
      break;
    case cudnn::reduction_operation:
      tensor(cudnn::reduction_x, out.x), tensor(cudnn::reduction_y, out.y);
      out.mode = mode(cudnn::reduction_of).one<int>(cudnn::reduction_mode);
      break;
    case cudnn::reshape_operation:
      tensor(cudnn::reshape_x, out.x), tensor(cudnn::reshape_y, out.y);
      break;
    default:
      tensor(cudnn::pointwise_x, out.x), tensor(cudnn::pointwise_y, out.y);
      out.has_b = tensor(cudnn::pointwise_b, out.b);
      out.has_condition = tensor(cudnn::pointwise_t, out.condition);
      out.mode = mode(cudnn::pointwise_of).one<int>(cudnn::pointwise_mode);
      out.axis = mode(cudnn::pointwise_of).one<int64_t>(cudnn::pointwise_axis, 0);
  }
  return out;
}

std::vector<CudnnOperation> operations_of(const Descriptor& graph) {
  std::vector<CudnnOperation> out;
  for (const auto& operation : graph.descriptors.at(cudnn::graph_operations)) out.push_back(operation_of(*operation));
  return out;
}

/// Each once.
std::map<int64_t, CudnnTensor> tensors_of(const std::vector<CudnnOperation>& operations) {
  std::map<int64_t, CudnnTensor> out;
  for (const CudnnOperation& op : operations) {
    for (const CudnnTensor* t : {&op.x, &op.y}) out[t->number] = *t;
    if (op.has_b) out[op.b.number] = op.b;
    if (op.has_condition) out[op.condition.number] = op.condition;
  }
  return out;
}

/// What the real one has no engine for.
bool supported(const std::vector<CudnnOperation>& operations) {
  for (const auto& [number, t] : tensors_of(operations)) {
    if (t.is_virtual || t.by_value || t.type != cudnn::bfloat16) continue;
    const size_t inner = t.strides[3] == 1 ? 3 : 2;
    if (t.strides[inner] != 1 || t.extents[inner] % feature_multiple != 0 || t.extents[inner] > most_features)
      return false;
    for (size_t d = 0; d < 4; ++d)
      if (d != inner && t.strides[d] % feature_multiple != 0) return false;
  }
  return !operations.empty();
}

int get(void* handle, int attribute, int, int64_t wanted, int64_t* found, void* values) {
  const Descriptor& d = *holder(handle);
  if (attribute == cudnn::plan_workspace_bytes) {
    const bool backward = operations_of(*d.descriptors.at(cudnn::plan_configuration).front()).size() > 15;
    *static_cast<int64_t*>(values) = backward ? backward_workspace_bytes : forward_workspace_bytes;
    *found = 1;
    return 0;
  }
  if (attribute != cudnn::heuristics_results) return refuse(bad_parameter, "an attribute that is not known here");
  const Descriptor& graph = *d.descriptors.at(cudnn::heuristics_graph).front();
  *found = DoubleMachine::current().options.has_cudnn_plans && supported(operations_of(graph)) ? 1 : 0;
  if (wanted == 0 || *found == 0) return 0;
  Descriptor& configuration = *holder(*static_cast<void**>(values));
  configuration.descriptors = graph.descriptors;
  configuration.finalized = true;
  return 0;
}

void touch(Gpu& gpu, const CudnnTensor& t, const char* memory, bool writes, const Toucher& by) {
  const size_t inner = t.strides[3] == 1 ? 3 : 2, outer = 5 - inner;
  const int64_t bytes = t.element_bytes();
  const bool one_run = t.strides[outer] == t.extents[inner];
  for (int64_t b = 0; b < t.extents[0]; ++b)
    for (int64_t h = 0; h < t.extents[1]; ++h)
      for (int64_t i = 0; i < (one_run ? 1 : t.extents[outer]); ++i)
        if (!gpu.touch(memory + (b * t.strides[0] + h * t.strides[1] + i * t.strides[outer]) * bytes,
                       size_t(t.extents[inner] * (one_run ? t.extents[outer] : 1) * bytes), writes, by))
          gpu.fail(fmt::format("{} {} tensor {} out of bounds", by.name, writes ? "writes" : "reads", t.number));
}

int execute(void* handle, void* plan_handle, void* pack_handle) {
  const auto& at = *static_cast<Handle*>(handle);
  const Descriptor &plan = *holder(plan_handle), &pack = *holder(pack_handle);
  const std::vector<CudnnOperation> operations = operations_of(*plan.descriptors.at(cudnn::plan_configuration).front());
  const bool backward = operations.size() > 15;
  const auto numbers = pack.get<int64_t>(cudnn::pack_ids);
  const auto pointers = pack.get<char*>(cudnn::pack_pointers);
  std::map<int64_t, char*> memory;
  std::map<int64_t, float> values;
  const std::map<int64_t, CudnnTensor> tensors = tensors_of(operations);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto tensor = tensors.find(numbers[i]);
    if (tensor == tensors.end()) return refuse(bad_parameter, fmt::format("the graph has no tensor {}", numbers[i]));
    if (tensor->second.by_value)
      std::memcpy(&values[numbers[i]], pointers[i], sizeof(float));
    else
      memory[numbers[i]] = pointers[i];
  }
  for (const auto& [number, t] : tensors)
    if (!t.is_virtual && !memory.count(number) && !values.count(number))
      return refuse(bad_parameter, fmt::format("tensor {} is not given", number));
  std::map<int64_t, bool> written;
  for (const CudnnOperation& op : operations)
    if (!op.y.is_virtual) written[op.y.number] = true;
  char* const workspace = pack.one<char*>(cudnn::pack_workspace);
  if (!at.stream) return refuse(bad_parameter, "no stream was set");
  Gpu& gpu = *at.stream->gpu;
  Stream& stream = *at.stream;
  gpu.issue([=, &gpu, &stream] {
    gpu.enqueue(stream, {.name = backward ? "the gradient of attention" : "attention", .run = [=, &gpu](Toucher& by) {
                           for (const auto& [number, place] : memory)
                             touch(gpu, tensors.at(number), place, written.count(number) > 0, by);
                           gpu.touch(workspace, size_t(backward ? backward_workspace_bytes : forward_workspace_bytes),
                                     true, by);
                           if (!gpu.memory.problem().empty() || !gpu.problem.empty()) return true;
                           if (const std::string problem = run_cudnn_graph(operations, memory, values);
                               !problem.empty())
                             gpu.fail("cuDNN: " + problem);
                           return true;
                         }});
  });
  return gpu.problem.empty() ? 0 : refuse(execution_failed, gpu.problem);
}

}  // namespace

void fill_cudnn(cuda::Cudnn& c) {
  c.version = [] { return size_t(91900); };
  c.create = [](void** handle) {
    Gpu* const gpu = current_gpu();
    if (!gpu) return refuse(bad_parameter, "no context is current");
    ++gpu->handles;
    return *handle = new Handle{gpu}, 0;
  };
  c.destroy = [](void* handle) {
    --static_cast<Handle*>(handle)->gpu->handles;
    return delete static_cast<Handle*>(handle), 0;
  };
  c.set_stream = [](void* handle, void* stream) {
    static_cast<Handle*>(handle)->stream = static_cast<Stream*>(stream);
    return 0;
  };
  c.descriptor_create = [](int type, void** descriptor) {
    ++DoubleMachine::current().descriptors;
    return *descriptor = new Holder(std::make_shared<Descriptor>(type)), 0;
  };
  c.descriptor_destroy = [](void* descriptor) {
    --DoubleMachine::current().descriptors;
    return delete static_cast<Holder*>(descriptor), 0;
  };
  c.set = set;
  c.get = get;
  c.finalize = [](void* handle) { return holder(handle)->finalized = true, 0; };
  c.execute = execute;
  c.status_text = [](int status) {
    return status == not_supported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
  };
  c.last_error = [](char* text, size_t bytes) {
    if (bytes > 0) text[last_error.copy(text, bytes - 1)] = 0;
  };
}

}  // namespace hetsynth::testing_support
