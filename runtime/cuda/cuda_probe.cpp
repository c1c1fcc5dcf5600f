#include "runtime/cuda/cuda_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>

#include "dsl/base/error.h"
#include "dsl/ir/expr.h"
#include "runtime/cuda/device_product.h"
#include "runtime/cuda/epilogue_kernels.h"
#include "runtime/cuda/nccl_ranks.h"
#include "runtime/rank/rank_timing.h"

namespace hetsynth::cuda {
namespace {

/// Small enough that starting a product costs more than doing it.
constexpr int64_t small_extent = 32;
constexpr size_t probe_workspace_bytes = size_t(32) << 20;
constexpr int exponentials = 16;  ///< one after the other, so that memory does not count
constexpr unsigned threads_per_block = 256;

const std::string loop_kernel = fmt::format(
    "extern \"C\" __global__ void loop(const float* __restrict__ x, float* __restrict__ y, const long long* "
    "__restrict__ count) {{\n"
    "  const int at = (int)blockIdx.x * {} + threadIdx.x;\n"
    "  if (at >= *count) return;\n"
    "  float value = x[at];\n"
    "  for (int i = 0; i < {}; ++i) value = expf(-value);\n"
    "  y[at] = value;\n"
    "}}\n",
    threads_per_block, exponentials);

/// What products of a model multiply is not zero; cards that are limited by power are slower with it. Random signs and
/// mantissas, sizes from a half to one.
std::vector<uint8_t> random_operands(int64_t elements, ProductType type) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> out(static_cast<size_t>(elements * element_bytes(type)));
  for (int64_t i = 0; i < elements; ++i) {
    const auto bits = uint32_t(random());
    uint32_t number = (bits & 0x807fffff) | 0x3f000000;  // of float32, and in its upper half of bf16
    if (type == ProductType::bf16) number >>= 16;
    if (type == ProductType::fp16) number = (bits & 0x83ff) | 0x3800;
    std::memcpy(&out[size_t(i * element_bytes(type))], &number, size_t(element_bytes(type)));
  }
  return out;
}

template <class T>
T* pointer(DevicePointer address) {
  return reinterpret_cast<T*>(address);
}

/// One GPU with a stream, and what is measured on it. Used from its rank's thread.
class Gpu {
 public:
  Gpu(const Backend& backend, int ordinal, const std::string& architecture) : driver_(backend.api->driver) {
    require(driver_.init(0), "cuInit");
    require(driver_.device_get(&device_, ordinal), "cuDeviceGet");
    require(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    require(driver_.context_set_current(context_), "cuCtxSetCurrent");
    require(driver_.stream_create(&stream_, stream_non_blocking, 0), "cuStreamCreateWithPriority");
    products_ = std::make_unique<DeviceProducts>(
        backend.api->cublas, reinterpret_cast<void*>(memory(probe_workspace_bytes)), probe_workspace_bytes);
    epilogues_ = std::make_unique<EpilogueKernels>(
        driver_, [&backend, architecture](const std::string& source, const std::string& name) {
          return backend.compile(source, name, architecture);
        });
    const CudaCode code = backend.compile(loop_kernel, "probe.cu", architecture);
    if (!code.ok()) throw InternalError("the probe's kernels do not compile:\n" + code.log);
    require(driver_.module_load(&module_, code.cubin.data()), "cuModuleLoadData");
    require(driver_.module_function(&loop_, module_, "loop"), "cuModuleGetFunction");
  }
  ~Gpu() {
    if (!context_) return;
    driver_.context_set_current(context_);
    products_.reset();
    epilogues_.reset();
    for (const DevicePointer pointer : memory_) driver_.free(pointer);
    if (module_) driver_.module_unload(module_);
    if (stream_) driver_.stream_destroy(stream_);
    driver_.primary_context_release(device_);
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void* stream() const { return stream_; }
  void make_current() const { require(driver_.context_set_current(context_), "cuCtxSetCurrent"); }
  void wait() const { require(driver_.stream_synchronize(stream_), "cuStreamSynchronize"); }

  /// Zeroed, for the life of the object.
  DevicePointer memory(size_t bytes) {
    make_current();
    memory_.push_back(0);
    require(driver_.allocate(&memory_.back(), bytes), "cuMemAlloc");
    require(driver_.fill(memory_.back(), 0, bytes, stream_), "cuMemsetD8Async");
    wait();
    return memory_.back();
  }
  /// Enqueues a product. "" or what is wrong with it.
  std::string multiply(const ProductShape& shape, const ProductOperands& operands) {
    make_current();
    return products_->enqueue(shape, operands, false, stream_);
  }
  /// Enqueues what follows a product of that shape if it has no epilogue.
  void follow(const ProductShape& shape, const ProductOperands& operands) {
    const std::string problem = epilogues_->follow(shape, operands, stream_);
    if (!problem.empty()) throw std::runtime_error(problem);
  }
  /// `count`: where the number of elements lies on the device.
  void run_loop(int64_t elements, DevicePointer x, DevicePointer y, DevicePointer count) {
    void* arguments[] = {&x, &y, &count, nullptr};
    const auto blocks = unsigned((elements + threads_per_block - 1) / threads_per_block);
    require(driver_.launch(loop_, blocks, 1, 1, threads_per_block, 1, 1, 0, stream_, arguments, nullptr), "loop");
    wait();
  }
  void copy(DevicePointer to, DevicePointer from, size_t bytes) {
    require(driver_.copy_on_device(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
    wait();
  }
  template <class T>
  void set(DevicePointer to, const std::vector<T>& values) {
    make_current();
    require(driver_.copy_to_device(to, values.data(), values.size() * sizeof(T), stream_), "cuMemcpyHtoDAsync");
    wait();
  }

 private:
  void require(int error, const char* call) const {
    if (!error) return;
    const char* text = nullptr;
    driver_.error_text(error, &text);
    throw std::runtime_error(fmt::format("{}: {}", call, text ? text : fmt::format("error {}", error)));
  }
  const Driver& driver_;
  int device_ = 0;
  void *context_ = nullptr, *stream_ = nullptr, *module_ = nullptr, *loop_ = nullptr;
  std::unique_ptr<EpilogueKernels> epilogues_;
  std::unique_ptr<DeviceProducts> products_;
  std::vector<DevicePointer> memory_;
};

class GpuProbe {
 public:
  GpuProbe(const Backend& backend, const std::vector<Device>& devices, const GpuProbeOptions& options)
      : options_(options),
        backend_(backend),
        count_(int(devices.size())),
        state_(names(devices)),
        threads_(state_, {1, true}),
        gpus_(devices.size()) {
    const std::vector<std::string> architectures = require_cuda(backend, devices);
    threads_.run([&](int rank) {
      const auto r = size_t(rank);
      gpus_[r] = std::make_unique<Gpu>(backend, devices[r].index, architectures[r]);
    });
  }

  DeviceSpeed speed() {
    DeviceSpeed out;
    const double rate = *products_per_second(ProductType::f32);
    out.matmul_flops_per_second = rate;
    out.matmul_call_seconds =
        std::max(0.0, *matmul_seconds(small_extent, ProductType::f32) - flops(small_extent) / rate);
    out.matmul_tf32_flops_per_second = products_per_second(ProductType::tf32);
    out.matmul_bf16_flops_per_second = products_per_second(ProductType::bf16);
    out.matmul_fp16_flops_per_second = products_per_second(ProductType::fp16);
    out.memory_bytes_per_second = memory_bytes_per_second();
    const double call = loop_seconds(1);
    const double operations = double(options_.loop_elements) * exponentials * hetsynth::flops(exp(Expr::input(0)));
    out.loop_flops_per_second = operations / std::max(loop_seconds(options_.loop_elements) - call, 1e-9);
    out.loop_call_seconds = call;
    out.epilogues = faster_epilogues();
    return out;
  }

  /// By NCCL, all GPUs at once.
  Link link() {
    if (count_ == 1) return unlimited_link;
    Mesh mesh;
    mesh.axes = {{"gpu", count_}};
    NcclRanks ranks(backend_.api->nccl, mesh, std::vector<bool>(size_t(count_), true));
    std::vector<std::unique_ptr<NcclConnection>> connections(static_cast<size_t>(count_));
    threads_.run([&](int rank) {
      gpus_[size_t(rank)]->make_current();
      connections[size_t(rank)] = std::make_unique<NcclConnection>(ranks, rank, [this] { return state_.aborted(); });
    });
    const int64_t floats = options_.message_bytes / int64_t(sizeof(float)) / count_ * count_;
    const double hops = count_ - 1, small = gather_seconds(connections, count_);
    const double received = double(floats) * sizeof(float) * hops / count_;
    const double large = gather_seconds(connections, floats);
    // Communicators leave together.
    threads_.run([&](int rank) {
      gpus_[size_t(rank)]->make_current();
      connections[size_t(rank)].reset();
    });
    return {received / std::max(large - small, 1e-9), small / hops};
  }

 private:
  static double flops(int64_t n) { return 2.0 * double(n * n * n); }
  static std::vector<std::string> names(const std::vector<Device>& devices) {
    std::vector<std::string> out;
    for (const Device& device : devices) out.push_back(device.name);
    return out;
  }

  /// `bytes` of each GPU.
  std::vector<DevicePointer> memory(int64_t bytes) {
    std::vector<DevicePointer> out(gpus_.size());
    threads_.run(
        [&](int rank) { out[size_t(rank)] = gpus_[size_t(rank)]->memory(size_t(std::max<int64_t>(bytes, 16))); });
    return out;
  }

  /// Gives each GPU memory with the same random elements.
  std::vector<DevicePointer> operands(int64_t elements, ProductType type) {
    const auto out = memory(elements * element_bytes(type));
    const std::vector<uint8_t> contents = random_operands(elements, type);
    threads_.run([&](int rank) { gpus_[size_t(rank)]->set(out[size_t(rank)], contents); });
    return out;
  }

  /// Whether all GPUs have an algorithm for a product, which the library says only when it is asked.
  bool can(const ProductShape& shape, const std::function<ProductOperands(size_t)>& operands_of) {
    std::vector<std::string> problems(gpus_.size());
    threads_.run([&](int rank) {
      const auto r = size_t(rank);
      problems[r] = gpus_[r]->multiply(shape, operands_of(r));
      gpus_[r]->wait();
    });
    return std::ranges::all_of(problems, [](const std::string& problem) { return problem.empty(); });
  }

  /// Measures a product of square matrices; gives nothing where the library has no such products.
  std::optional<double> matmul_seconds(int64_t n, ProductType type) {
    const auto a = operands(n * n, type), w = operands(n * n, type), c = memory(4 * n * n);
    ProductShape shape{1, n, n, n, 0, n, 1, 0, n, 1, 0, n, 1, type};
    const auto of = [&](size_t r) -> ProductOperands {
      return {pointer<void>(a[r]), pointer<void>(w[r]), pointer<float>(c[r])};
    };
    if (type != ProductType::f32 && !can(shape, of)) return std::nullopt;
    return slowest_median(threads_, count_, options_.seconds, [&](int rank) {
      Gpu& gpu = *gpus_[size_t(rank)];
      const std::string problem = gpu.multiply(shape, of(size_t(rank)));
      if (!problem.empty()) throw std::runtime_error(problem);
      gpu.wait();
    });
  }

  std::optional<double> products_per_second(ProductType type) {
    const std::optional<double> seconds = matmul_seconds(options_.matmul_extent, type);
    return seconds ? std::optional(flops(options_.matmul_extent) / *seconds) : std::nullopt;
  }

  /// Products with an epilogue that take no longer than the product and a kernel. The sums are short, as they are where
  /// a model's width is: with longer ones there is less to win.
  FusedProducts faster_epilogues() {
    const int64_t n = options_.matmul_extent, m = 2 * n, k = std::max<int64_t>(1, n / 4);
    const auto a = operands(m * k, ProductType::f32), w = operands(k * n, ProductType::f32), c = memory(4 * m * n),
               beside = memory(4 * m * n), bias = memory(4 * n);
    const auto operands_of = [&](size_t r) -> ProductOperands {
      return {pointer<void>(a[r]), pointer<void>(w[r]), pointer<float>(c[r]), pointer<float>(bias[r]),
              pointer<float>(beside[r])};
    };
    /// No less than 0: how much longer the product and a kernel take; below: it is not faster, or not there.
    auto gained = [&](const ProductShape& plain, int epilogue) {
      ProductShape fused = plain;
      fused.epilogue = epilogue;
      if (!can(fused, operands_of)) return -HUGE_VAL;
      const double together = slowest_median(threads_, count_, options_.seconds, [&](int rank) {
        gpus_[size_t(rank)]->multiply(fused, operands_of(size_t(rank)));
        gpus_[size_t(rank)]->wait();
      });
      return slowest_median(threads_, count_, options_.seconds,
                            [&](int rank) {
                              const auto r = size_t(rank);
                              gpus_[r]->multiply(plain, operands_of(r));
                              gpus_[r]->follow(fused, operands_of(r));
                              gpus_[r]->wait();
                            }) -
             together;
    };
    FusedProducts out;
    for (const auto& [operands, type] :
         {std::pair(DType::f32, ProductType::f32), {DType::bf16, ProductType::bf16}, {DType::fp16, ProductType::fp16}})
      for (const ProductEpilogue epilogue : product_epilogues) {
        double seconds = 0;
        for (int number : cublas_numbers(epilogue))
          seconds += gained({1, m, n, k, 0, k, 1, 0, n, 1, 0, n, 1, type}, number);
        if (seconds >= 0) out.insert({epilogue, operands});
      }
    return out;
  }

  double loop_seconds(int64_t elements) {
    const auto x = memory(4 * elements), y = memory(4 * elements), count = memory(8);
    threads_.run([&](int rank) { gpus_[size_t(rank)]->set(count[size_t(rank)], std::vector<int64_t>{elements}); });
    return slowest_median(threads_, count_, options_.seconds, [&](int rank) {
      const auto r = size_t(rank);
      gpus_[r]->run_loop(elements, x[r], y[r], count[r]);
    });
  }

  double memory_bytes_per_second() {
    const int64_t half = options_.memory_bytes / 2;
    const auto from = memory(half), to = memory(half);
    return 2.0 * double(half) / slowest_median(threads_, count_, options_.seconds, [&](int rank) {
             const auto r = size_t(rank);
             gpus_[r]->copy(to[r], from[r], size_t(half));
           });
  }

  double gather_seconds(const std::vector<std::unique_ptr<NcclConnection>>& connections, int64_t floats) {
    const auto part = memory(4 * floats / count_), whole = memory(4 * floats);
    constexpr int rounds = 20;
    return slowest_median(threads_, count_, rounds, [&](int rank) {
      const auto r = size_t(rank);
      NcclConnection& connection = *connections[r];
      const int status = connection.settle(backend_.api->nccl.all_gather(
          reinterpret_cast<const void*>(part[r]), reinterpret_cast<void*>(whole[r]), size_t(floats / count_),
          nccl_float32, connection.along(0), gpus_[r]->stream()));
      if (status) throw std::runtime_error("ncclAllGather: " + connection.error_text(status));
      gpus_[r]->wait();
    });
  }

  const GpuProbeOptions options_;
  const Backend& backend_;
  const int count_;
  RunState state_;
  RankThreads threads_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
};

}  // namespace

ProbeResult probe_gpus(const Backend& backend, const std::vector<Device>& devices, const GpuProbeOptions& options) {
  GpuProbe probe(backend, devices, options);
  return {probe.speed(), probe.link()};
}

}  // namespace hetsynth::cuda
