#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>

#include <stdexcept>

#include "dsl/base/error.h"
#include "runtime/cuda/device_product.h"

namespace hetsynth::cuda {
namespace {

/// What cublasLt asks for on recent devices (32 MiB).
constexpr size_t workspace_bytes = size_t(32) << 20;

DevicePointer device_pointer(const void* pointer) { return reinterpret_cast<DevicePointer>(pointer); }

class CudaDevice : public RankDevice {
 public:
  CudaDevice(const Api& api, CudaRank rank) : api_(api), driver_(api.driver), rank_(std::move(rank)) {}

  ~CudaDevice() override {
    if (!context_) return;
    driver_.context_set_current(context_);
    for (void* communicator : communicators_) (failed() ? api_.nccl.abort : api_.nccl.destroy)(communicator);
    products_.reset();
    for (void* event : events_) driver_.event_destroy(event);
    for (void* stream : streams_)
      if (stream) driver_.stream_destroy(stream);
    if (module_) driver_.module_unload(module_);
    if (workspace_) driver_.free(workspace_);
    if (arena_) driver_.free(arena_);
    driver_.primary_context_release(device_);
  }

  void allocate(int64_t bytes) override {
    require(driver_.init(0), "cuInit");
    require(driver_.device_get(&device_, rank_.ordinal), "cuDeviceGet");
    require(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    require(driver_.context_set_current(context_), "cuCtxSetCurrent");
    create_streams();
    load_kernels();
    if (driver_.allocate(&arena_, size_t(bytes > 0 ? bytes : 1)))
      throw std::runtime_error(fmt::format("the device has no room for the rank's {} bytes", bytes));
    require(driver_.fill(arena_, 0, size_t(bytes), streams_[0]), "cuMemsetD8Async");
    require(driver_.allocate(&workspace_, workspace_bytes), "cuMemAlloc of the workspace of matrix products");
    synchronize(0);
    products_ = std::make_unique<DeviceProducts>(api_.cublas, reinterpret_cast<void*>(workspace_), workspace_bytes);
    if (rank_.ranks) communicators_ = rank_.ranks->connect(rank_.rank);
  }

  // Copies go through the compute stream and are awaited: streams that do not block know nothing of the default stream.
  void write(int64_t offset_bytes, std::span<const std::byte> data) override {
    if (data.empty()) return;
    require(driver_.context_set_current(context_), "cuCtxSetCurrent");
    require(driver_.copy_to_device(arena_ + DevicePointer(offset_bytes), data.data(), data.size(), streams_[0]),
            "cuMemcpyHtoDAsync");
    synchronize(0);
  }

  void read(int64_t offset_bytes, std::span<std::byte> data) const override {
    if (data.empty()) return;
    require(driver_.context_set_current(context_), "cuCtxSetCurrent");
    require(driver_.copy_to_host(data.data(), arena_ + DevicePointer(offset_bytes), data.size(), streams_[0]),
            "cuMemcpyDtoHAsync");
    synchronize(0);
  }

  int step(HetsynthContext context) override {
    require(driver_.context_set_current(context_), "cuCtxSetCurrent");
    context.arena = reinterpret_cast<char*>(arena_);
    context.stream = streams_[0];
    context.communication_stream = streams_[1];
    context.device = this;
    if (int code = rank_.step(&context)) {
      if (problem_.empty()) problem_ = fmt::format("the step ended with code {}", code);
      throw std::runtime_error(problem_);
    }
    synchronize(0);
    synchronize(1);
    return 0;
  }

  // ---- what the generated host program calls ----

  int launch(int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void** arguments) {
    return note(driver_.launch(functions_[size_t(kernel)], blocks, 1, 1, threads, 1, 1, shared_bytes, streams_[stream],
                               arguments, nullptr),
                rank_.kernels[size_t(kernel)]);
  }

  int multiply(const ProductShape& shape, const float* a, const float* w, float* c, bool accumulate) {
    problem_ = products_->enqueue(shape, a, w, c, accumulate, streams_[0]);
    return problem_.empty() ? 0 : 1;
  }

  int copy(int stream, void* to, const void* from, int64_t bytes) {
    return note(driver_.copy_on_device(device_pointer(to), device_pointer(from), size_t(bytes), streams_[stream]),
                "cuMemcpyDtoDAsync");
  }
  int record(int event, int stream) {
    return note(driver_.event_record(events_[size_t(event)], streams_[stream]), "cuEventRecord");
  }
  int wait(int event, int stream) {
    return note(driver_.stream_wait(streams_[stream], events_[size_t(event)], 0), "cuStreamWaitEvent");
  }
  void* communicator(int axis) { return communicators_.empty() ? nullptr : communicators_[size_t(axis)]; }

 private:
  bool failed() const { return !problem_.empty(); }

  std::string error_text(int error, const std::string& call) const {
    const char* text = nullptr;
    driver_.error_text(error, &text);
    return fmt::format("{}: {}", call, text ? text : fmt::format("error {}", error));
  }

  void require(int error, const char* call) const {
    if (error) throw std::runtime_error(error_text(error, call));
  }

  int note(int error, const std::string& call) {
    if (error && problem_.empty()) problem_ = error_text(error, call);
    return error;
  }

  void synchronize(int stream) const { require(driver_.stream_synchronize(streams_[stream]), "cuStreamSynchronize"); }

  /// Transfers run at high priority, so that they start as soon as what they need is there.
  void create_streams() {
    int least = 0, greatest = 0;
    require(driver_.priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
    require(driver_.stream_create(&streams_[0], stream_non_blocking, least), "cuStreamCreateWithPriority");
    require(driver_.stream_create(&streams_[1], stream_non_blocking, greatest), "cuStreamCreateWithPriority");
    events_.assign(size_t(rank_.events), nullptr);
    for (void*& event : events_) require(driver_.event_create(&event, event_disable_timing), "cuEventCreate");
  }

  void load_kernels() {
    require(driver_.module_load(&module_, rank_.cubin.data()), "cuModuleLoadData");
    for (const std::string& name : rank_.kernels) {
      functions_.push_back(nullptr);
      require(driver_.module_function(&functions_.back(), module_, name.c_str()), name.c_str());
    }
  }

  const Api& api_;
  const Driver& driver_;
  CudaRank rank_;
  int device_ = 0;
  void *context_ = nullptr, *module_ = nullptr;
  void* streams_[2] = {nullptr, nullptr};
  DevicePointer arena_ = 0, workspace_ = 0;
  std::vector<void*> functions_, events_, communicators_;
  std::unique_ptr<DeviceProducts> products_;
  std::string problem_;
};

CudaDevice& device_of(HetsynthContext* context) { return *static_cast<CudaDevice*>(context->device); }

}  // namespace

std::unique_ptr<RankDevice> cuda_device(const Api& api, CudaRank rank) {
  return std::make_unique<CudaDevice>(api, std::move(rank));
}

}  // namespace hetsynth::cuda

using hetsynth::cuda::device_of;

extern "C" {

int hetsynth_launch(HetsynthContext* context, int stream, int kernel, unsigned blocks, unsigned threads,
                    unsigned shared_bytes, void** arguments) {
  return device_of(context).launch(stream, kernel, blocks, threads, shared_bytes, arguments);
}

int hetsynth_device_matmul(HetsynthContext* context, int64_t batch, int64_t m, int64_t n, int64_t k, const float* a,
                           int64_t a_batch, int64_t a_row, int64_t a_column, const float* w, int64_t w_batch,
                           int64_t w_row, int64_t w_column, float* c, int64_t c_batch, int64_t c_row, int64_t c_column,
                           int accumulate) {
  return device_of(context).multiply(
      {batch, m, n, k, a_batch, a_row, a_column, w_batch, w_row, w_column, c_batch, c_row, c_column}, a, w, c,
      accumulate != 0);
}

int hetsynth_device_copy(HetsynthContext* context, int stream, void* to, const void* from, int64_t bytes) {
  return device_of(context).copy(stream, to, from, bytes);
}

int hetsynth_record(HetsynthContext* context, int event, int stream) {
  return device_of(context).record(event, stream);
}

int hetsynth_wait(HetsynthContext* context, int event, int stream) { return device_of(context).wait(event, stream); }

void* hetsynth_nccl_communicator(HetsynthContext* context, int axis) { return device_of(context).communicator(axis); }

}  // extern "C"

namespace hetsynth::cuda {

std::vector<std::pair<std::string, void*>> cuda_symbols(const Api& api) {
  auto address = [](auto* function) { return reinterpret_cast<void*>(function); };
  const Nccl& n = api.nccl;
  return {{"hetsynth_launch", address(&hetsynth_launch)},
          {"hetsynth_device_matmul", address(&hetsynth_device_matmul)},
          {"hetsynth_device_copy", address(&hetsynth_device_copy)},
          {"hetsynth_record", address(&hetsynth_record)},
          {"hetsynth_wait", address(&hetsynth_wait)},
          {"hetsynth_nccl_communicator", address(&hetsynth_nccl_communicator)},
          {"ncclGroupStart", n.group_start},
          {"ncclGroupEnd", n.group_end},
          {"ncclAllGather", n.all_gather},
          {"ncclAllReduce", n.all_reduce},
          {"ncclReduceScatter", n.reduce_scatter},
          {"ncclBroadcast", n.broadcast},
          {"ncclReduce", n.reduce},
          {"ncclSend", n.send},
          {"ncclRecv", n.receive}};
}

}  // namespace hetsynth::cuda
