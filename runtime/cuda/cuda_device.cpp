#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <span>
#include <stdexcept>
#include <thread>

#include "dsl/base/error.h"
#include "runtime/cuda/cuda_device_state.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/notice.h"

namespace hetsynth::cuda {
namespace {

/// What cublasLt asks for on recent devices (32 MiB).
constexpr size_t workspace_bytes = size_t(32) << 20;

}  // namespace

CudaDevice::~CudaDevice() {
  if (!context_) return;
  driver_.context_set_current(context_);
  if (!problem_.empty() || stopping()) abort_communicators();
  staged_.reset();
  forget_recorded();
  nccl_.reset();
  products_.reset();
  epilogues_.reset();
  attention_.reset();
  for (const Pinned& pinned : pinned_)
    if (pinned.memory) driver_.host_free(pinned.memory);
  for (void* event : events_)
    if (event) driver_.event_destroy(event);
  for (void* stream : streams_)
    if (stream) driver_.stream_destroy(stream);
  if (module_) driver_.module_unload(module_);
  if (clock_) driver_.free(clock_);
  if (workspace_) driver_.free(workspace_);
  if (arena_) driver_.free(arena_);
  if (!rank_.part.context) driver_.primary_context_release(device_);
}

void CudaDevice::allocate(int64_t bytes) {
  require(driver_.init(0), "cuInit");
  require(driver_.device_get(&device_, rank_.ordinal), "cuDeviceGet");
  context_ = rank_.part.context;
  if (!context_) require(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  make_current();
  create_streams();
  load_kernels();
  allocate_arena(bytes);
  require(driver_.fill(arena_, 0, size_t(bytes), streams_[0]), "cuMemsetD8Async");
  synchronize(0);
  epilogues_ = std::make_unique<EpilogueKernels>(driver_, rank_.compile);
  products_ = std::make_unique<DeviceProducts>(
      api_.cublas, reinterpret_cast<void*>(workspace_), workspace_bytes, rank_.part.multiprocessors,
      [this](const ProductShape& shape, const ProductOperands& operands, void* stream) {
        return epilogues_->follow(shape, operands, stream);
      });
  connect();
}

/// Transfers run at high priority, so that they start as soon as what they need is there.
void CudaDevice::create_streams() {
  int least = 0, greatest = 0;
  require(driver_.priority_range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  const bool sends = rank_.ranks && !rank_.ranks->sending_axes().empty();
  for (void*& stream : std::span(streams_).first(sends ? stream_count : 2)) {
    const int priority = &stream == streams_ ? least : greatest;
    if (rank_.part.context)
      require(driver_.green_stream_create(&stream, rank_.part.green, stream_non_blocking, priority),
              "cuGreenCtxStreamCreate");
    else
      require(driver_.stream_create(&stream, stream_non_blocking, priority), "cuStreamCreateWithPriority");
  }
  events_.assign(size_t(rank_.events), nullptr);
  for (void*& event : events_) require(driver_.event_create(&event, event_disable_timing), "cuEventCreate");
}

void CudaDevice::load_kernels() {
  require(driver_.module_load(&module_, rank_.cubin.data()), "cuModuleLoadData");
  for (const std::string& name : rank_.kernels) {
    functions_.push_back(nullptr);
    require(driver_.module_function(&functions_.back(), module_, name.c_str()), name.c_str());
  }
}

void CudaDevice::allocate_arena(int64_t bytes) {
  size_t free = 0, total = 0;
  require(driver_.memory_info(&free, &total), "cuMemGetInfo");
  const size_t arena = size_t(bytes > 0 ? bytes : 1);
  // The driver is asked only for what it says it has: a refused allocation can leave a context that answers nothing.
  int error = free < arena + workspace_bytes ? out_of_memory : driver_.allocate(&arena_, arena);
  if (!error) error = driver_.allocate(&workspace_, workspace_bytes);
  if (!error) error = driver_.allocate(&clock_, sizeof step_and_seed_);
  if (!error) return;
  if (error != out_of_memory) require(error, "cuMemAlloc");
  Diagnostic diagnostic;
  diagnostic.tag = "memory";
  diagnostic.message = fmt::format("GPU {} has no room for rank {}", rank_.ordinal, rank_.rank);
  diagnostic.expected = fmt::format("{} for its tensors and {} for matrix products", text_of_bytes(bytes),
                                    text_of_bytes(int64_t(workspace_bytes)));
  diagnostic.found = fmt::format("{} free of {}", text_of_bytes(int64_t(free)), text_of_bytes(int64_t(total)));
  for (const NamedBytes& tensor : rank_.largest_tensors)
    diagnostic.notes.push_back({{}, fmt::format("{} takes {}", tensor.name, text_of_bytes(tensor.bytes))});
  diagnostic.mend =
      "end what else uses the GPU, give the device's real `memory` in the cluster file and plan again, or take a "
      "smaller "
      "--batch";
  throw UserError(diagnostic, ExitCode::failure);
}

void CudaDevice::connect() {
  if (!rank_.ranks) return;
  nccl_ = std::make_unique<NcclConnection>(*rank_.ranks, rank_.rank, [this] { return stopping(); });
  if (hosts_) staged_ = std::make_unique<StagedCommunicator>(*hosts_, *rank_.ranks, nccl_.get(), staging());
}

// Copies go through the compute stream and are awaited: streams that do not block know nothing of the default stream.
void CudaDevice::write(int64_t offset_bytes, std::span<const std::byte> data) {
  if (data.empty()) return;
  make_current();
  require(driver_.copy_to_device(arena_ + DevicePointer(offset_bytes), data.data(), data.size(), streams_[0]),
          "cuMemcpyHtoDAsync");
  synchronize(0);
}

void CudaDevice::read(int64_t offset_bytes, std::span<std::byte> data) const {
  if (data.empty()) return;
  make_current();
  require(driver_.copy_to_host(data.data(), arena_ + DevicePointer(offset_bytes), data.size(), streams_[0]),
          "cuMemcpyDtoHAsync");
  synchronize(0);
}

int CudaDevice::step(HetsynthContext context) {
  make_current();
  context.arena = reinterpret_cast<char*>(arena_);
  context.stream = streams_[0];
  context.communication_stream = streams_[1];
  context.rising_stream = streams_[2];
  context.falling_stream = streams_[3];
  context.device = this;
  if (staged_) context.communicator = static_cast<Communicator*>(staged_.get());
  context.clock = reinterpret_cast<const void*>(clock_);
  set_clock(context);
  if (int code = issue(context); code || group_depth_ != 0) fail_step(code);
  for (int stream = 0; stream < stream_count; ++stream)
    if (int error = streams_[stream] ? await(stream) : 0) fail_step(error);
  return 0;
}

int CudaDevice::profile(HetsynthContext context, std::vector<TimedWork>& work) {
  profiles_ = true;
  try {
    if (const int code = step(context)) return code;
    for (const Span& span : spans_) {
      float milliseconds = 0;
      require(driver_.event_elapsed(&milliseconds, span.begin, span.end), "cuEventElapsedTime");
      add_call(work, span.kind, span.name, double(milliseconds) * 1e-3);
    }
  } catch (...) {
    forget_spans();
    throw;
  }
  forget_spans();
  return 0;
}

void* CudaDevice::timing_event(int stream) {
  void* event = nullptr;
  if (!note(driver_.event_create(&event, 0), "cuEventCreate"))
    note(driver_.event_record(event, streams_[stream]), "cuEventRecord");
  return event;
}

void CudaDevice::forget_spans() {
  profiles_ = false;
  group_.reset();
  for (const Span& span : spans_)
    for (void* event : {span.begin, span.end})
      if (event) driver_.event_destroy(event);
  spans_.clear();
}

CudaDevice::Timed::Timed(CudaDevice& device, TimedWork::Kind kind, int stream, std::string name)
    : device_(device), number_(device.spans_.size()), stream_(stream) {
  if (device_.profiles_) device_.spans_.push_back({kind, std::move(name), device_.timing_event(stream), nullptr});
}

CudaDevice::Timed::~Timed() {
  if (number_ < device_.spans_.size()) device_.spans_[number_].end = device_.timing_event(stream_);
}

void CudaDevice::set_clock(const HetsynthContext& context) {
  step_and_seed_[0] = context.step;
  step_and_seed_[1] = int64_t(context.seed);
  require(driver_.copy_to_device(clock_, step_and_seed_, sizeof step_and_seed_, streams_[0]), "cuMemcpyHtoDAsync");
}

int CudaDevice::run_host_program(HetsynthContext& context) {
  issuing() = this;
  const int code = rank_.step(&context);
  issuing() = nullptr;
  return code;
}

int CudaDevice::issue(HetsynthContext& context) {
  // The first step is issued as it is: cublasLt chooses algorithms in it, and NCCL connects.
  const bool records = rank_.replays && !recorded_ && steps_ == 1;
  ++steps_;
  if (records && !profiles_ && !record(context)) rank_.replays = false;
  if (!recorded_ || profiles_) return run_host_program(context);
  return note(driver_.graph_launch(recorded_, streams_[0]), "cuGraphLaunch");
}

/// False: the driver or a library refuses, and steps are issued as before. Nothing has been executed then.
bool CudaDevice::record(HetsynthContext& context) {
  if (driver_.begin_capture(streams_[0], capture_relaxed)) return false;
  const int code = run_host_program(context);
  void* graph = nullptr;
  const int ended = driver_.end_capture(streams_[0], &graph);
  if (code || ended || !graph || driver_.graph_instantiate(&recorded_, graph, 0)) recorded_ = nullptr;
  if (graph) driver_.graph_destroy(graph);
  if (!recorded_) {
    warn("rank {}: a step cannot be recorded as a graph ({}); every step is issued anew", rank_.rank,
         problem_.empty() ? "the driver refuses" : problem_);
    problem_.clear();
  }
  return recorded_ != nullptr;
}

/// The driver lets go of it when it is no longer being executed.
void CudaDevice::forget_recorded() {
  if (recorded_) driver_.graph_executable_destroy(recorded_);
  recorded_ = nullptr;
}

/// A communicator waits for the end of every recorded step that uses it, so that goes first. Nothing is replayed any
/// more.
void CudaDevice::abort_communicators() {
  forget_recorded();
  rank_.replays = false;
  if (nccl_) nccl_->abort();
}

void CudaDevice::fail_step(int code) {
  abort_communicators();
  if (problem_.empty() && group_depth_ != 0) problem_ = "a group of NCCL calls was not ended";
  if (problem_.empty()) problem_ = fmt::format("the generated step returned {}", code);
  throw std::runtime_error(problem_);
}

int CudaDevice::await(int stream) {
  for (int waits = 0;; ++waits) {
    const int status = driver_.stream_query(streams_[stream]);
    if (status != not_ready) return note(status, "cuStreamQuery");
    if (nccl_)
      if (int error = nccl_->broken()) problem_ = fmt::format("NCCL: {}", nccl_->error_text(error));
    if (stopping() || !problem_.empty()) {
      // Kernels of NCCL that wait for a rank that is gone end only so.
      abort_communicators();
      return not_ready;
    }
    // A step lasts milliseconds: the first ones are waited for without giving up the core.
    if (waits > 64) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// ---- what the generated host program calls ----

int CudaDevice::launch(int stream, int kernel, unsigned blocks, unsigned threads, unsigned shared_bytes,
                       void** arguments) {
  const Timed timed(*this, stream == 0 ? TimedWork::Kind::kernel : TimedWork::Kind::transfer, stream,
                    rank_.kernels[size_t(kernel)]);
  return note(driver_.launch(functions_[size_t(kernel)], blocks, 1, 1, threads, 1, 1, shared_bytes, streams_[stream],
                             arguments, nullptr),
              rank_.kernels[size_t(kernel)]);
}

int CudaDevice::multiply(const ProductShape& shape, const ProductOperands& operands, bool accumulate) {
  const Timed timed(*this, TimedWork::Kind::product, 0,
                    fmt::format("product of {} x [{}, {}] x [{}, {}]{}{}", shape.batch, shape.m, shape.k, shape.k,
                                shape.n, shape.type == ProductType::f32 ? "" : fmt::format(", {}", name(shape.type)),
                                shape.epilogue == epilogue_none ? "" : fmt::format(", epilogue {}", shape.epilogue)));
  problem_ = products_->enqueue(shape, operands, accumulate, streams_[0]);
  return problem_.empty() ? 0 : 1;
}

int CudaDevice::attend(const AttentionShape& shape, const AttentionOperands& operands) {
  const Timed timed(*this, TimedWork::Kind::kernel, 0, description(shape));
  if (!attention_) attention_ = std::make_unique<DeviceAttention>(api_.cudnn);
  problem_ = api_.has_cudnn ? attention_->enqueue(shape, operands, streams_[0]) : api_.cudnn_problem;
  return problem_.empty() ? 0 : 1;
}

int CudaDevice::copy(int stream, void* to, const void* from, int64_t bytes) {
  const Timed timed(*this, stream == 0 ? TimedWork::Kind::kernel : TimedWork::Kind::transfer, stream, "copy");
  return note(driver_.copy_on_device(device_pointer(to), device_pointer(from), size_t(bytes), streams_[stream]),
              "cuMemcpyDtoDAsync");
}

int CudaDevice::record(int event, int stream) {
  return note(driver_.event_record(events_[size_t(event)], streams_[stream]), "cuEventRecord");
}

int CudaDevice::wait(int event, int stream) {
  return note(driver_.stream_wait(streams_[stream], events_[size_t(event)], 0), "cuStreamWaitEvent");
}

void* CudaDevice::communicator(int axis) { return nccl_ ? nccl_->along(axis) : nullptr; }
void* CudaDevice::host_communicator(int axis) { return nccl_ ? nccl_->on_host(axis) : nullptr; }
void* CudaDevice::leader_communicator(int axis) { return nccl_ ? nccl_->leaders(axis) : nullptr; }
void* CudaDevice::rising_communicator(int axis) { return nccl_ ? nccl_->rising(axis) : nullptr; }
void* CudaDevice::falling_communicator(int axis) { return nccl_ ? nccl_->falling(axis) : nullptr; }

int CudaDevice::number_of(const void* stream) const {
  return int(std::ranges::find(streams_, stream) - std::begin(streams_));
}

int CudaDevice::nccl_done(int status, const char* call) {
  if (status == nccl_in_progress && group_depth_ > 0) return 0;
  if (nccl_) status = nccl_->settle(status);
  if (status == 0 || stopping()) return status;
  if (problem_.empty()) problem_ = fmt::format("{}: {}", call, api_.nccl.error_text(status));
  return status;
}

int CudaDevice::group_start() {
  ++group_depth_;
  return nccl_done(api_.nccl.group_start(), "ncclGroupStart");
}

/// On the stream of its first call.
void CudaDevice::time_group(int stream) {
  if (profiles_ && !group_) group_.emplace(*this, TimedWork::Kind::transfer, stream, "group of NCCL");
}

int CudaDevice::group_end() {
  --group_depth_;
  const int status = nccl_done(api_.nccl.group_end(), "ncclGroupEnd");
  if (group_depth_ == 0) group_.reset();
  return status;
}

CudaDevice*& CudaDevice::issuing() {
  thread_local CudaDevice* device = nullptr;
  return device;
}

// ---- copies for collectives with cpu ranks ----

DeviceStream CudaDevice::staging() {
  DeviceStream out;
  out.stream = streams_[1];
  out.to_host = [this](void* to, DevicePointer from, size_t bytes) {
    return bytes == 0 ? 0 : note(driver_.copy_to_host(to, from, bytes, streams_[1]), "cuMemcpyDtoHAsync");
  };
  out.to_device = [this](DevicePointer to, const void* from, size_t bytes) {
    return bytes == 0 ? 0 : note(driver_.copy_to_device(to, from, bytes, streams_[1]), "cuMemcpyHtoDAsync");
  };
  out.synchronize = [this] { return await(1); };
  out.nccl_done = [this](int status) { return nccl_done(status, "NCCL among the GPUs of a mixed group"); };
  out.pinned = [this](int which, size_t bytes) { return pinned(which, bytes); };
  return out;
}

void* CudaDevice::pinned(int which, size_t bytes) {
  Pinned& buffer = pinned_[which];
  if (buffer.memory && buffer.bytes >= bytes) return buffer.memory;
  // The stream may still read the old buffer.
  if (await(1)) return nullptr;
  if (buffer.memory) driver_.host_free(buffer.memory);
  buffer = {nullptr, std::max(bytes, 2 * buffer.bytes)};
  if (note(driver_.host_allocate(&buffer.memory, std::max<size_t>(buffer.bytes, 64), 0), "cuMemHostAlloc")) buffer = {};
  return buffer.memory;
}

// ---- errors ----

std::string CudaDevice::error_text(int error, const std::string& call) const {
  const char* text = nullptr;
  driver_.error_text(error, &text);
  return fmt::format("{}: {}", call, text ? text : fmt::format("error {}", error));
}

void CudaDevice::require(int error, const char* call) const {
  if (error) throw std::runtime_error(error_text(error, call));
}

int CudaDevice::note(int error, const std::string& call) {
  if (error && problem_.empty()) problem_ = error_text(error, call);
  return error;
}

void CudaDevice::synchronize(int stream) const {
  require(driver_.stream_synchronize(streams_[stream]), "cuStreamSynchronize");
}

void CudaDevice::make_current() const { require(driver_.context_set_current(context_), "cuCtxSetCurrent"); }

std::unique_ptr<RankDevice> cuda_device(const Api& api, CudaRank rank) {
  return std::make_unique<CudaDevice>(api, std::move(rank));
}

}  // namespace hetsynth::cuda
