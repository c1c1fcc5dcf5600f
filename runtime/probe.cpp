#include "runtime/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "codegen/cpu/prelude.h"
#include "codegen/interface/abi.h"
#include "dsl/base/error.h"
#include "dsl/ir/expr.h"
#include "dsl/jit/compiled_code.h"
#include "runtime/collectives/shared_memory_communicator.h"
#include "runtime/rank/rank_timing.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

/// Small enough that starting a product costs more than doing it, large enough to be timed.
constexpr int64_t small_extent = 32;

/// A loop as generated programs have them, compiled as they are.
NativeModule exponential_loop() {
  return load_native(codegen::prelude_for("exp_f32(") +
                     "extern \"C\" void loop(const float* x, float* y, long n) {\n"
                     "  for (long i = 0; i < n; ++i) y[i] = exp_f32(x[i]);\n}\n");
}

class Probe {
 public:
  Probe(int ranks, const ProbeOptions& options)
      : ranks_(ranks), options_(options), state_(names(ranks)), threads_(state_, {1, true}) {
    Mesh mesh;
    mesh.axes = {{"rank", ranks}};
    communicators_ = shared_memory_communicators(mesh, std::vector<double>(size_t(ranks), 1.0), state_);
  }

  DeviceSpeed speed() {
    DeviceSpeed out;
    const double rate = matmul_flops(options_.matmul_extent) / matmul_seconds(options_.matmul_extent);
    out.matmul_flops_per_second = rate;
    out.matmul_call_seconds = std::max(0.0, matmul_seconds(small_extent) - matmul_flops(small_extent) / rate);
    out.memory_bytes_per_second = memory_bytes_per_second();
    out.convolution_flops_per_second = convolution_flops_per_second();
    out.loop_flops_per_second = loop_flops_per_second();
    return out;
  }

  Link link() {
    if (ranks_ == 1) return unlimited_link;
    const double hops = ranks_ - 1, small = gather_seconds(ranks_);
    const int64_t floats = options_.message_bytes / int64_t(sizeof(float)) / ranks_ * ranks_;
    const double received = double(floats) * sizeof(float) * hops / ranks_;
    return {received / std::max(gather_seconds(floats) - small, 1e-9), small / hops};
  }

 private:
  struct Buffers {
    Buffers(size_t count, float value) : x(count, value), y(count, value), z(count, value) {}
    std::vector<float> x, y, z;
  };

  static double matmul_flops(int64_t n) { return 2.0 * double(n * n * n); }

  double matmul_seconds(int64_t n) {
    std::vector<Buffers> of(static_cast<size_t>(ranks_), {size_t(n * n), 1.0f});
    return slowest_median([&](int rank) {
      Buffers& b = of[size_t(rank)];
      hetsynth_matmul(1, n, n, n, b.x.data(), 0, n, 1, b.y.data(), 0, n, 1, b.z.data(), 0, n, 1, 0);
    });
  }

  /// 4 images of 28 x 28, padded to keep that size.
  double convolution_flops_per_second() {
    constexpr int64_t batch = 4, channels = 32, extent = 28, window = 3, image = channels * extent * extent;
    constexpr int64_t sizes[] = {batch, 1, channels, channels, extent, window, extent, 1,
                                 1,     1, extent,   window,   extent, 1,      1,      1};
    constexpr int64_t strides[] = {
        image, extent * extent, extent, 1, channels * window * window, window * window, window, 1,
        image, extent * extent, extent, 1};
    std::vector<Buffers> of(static_cast<size_t>(ranks_), {size_t(batch * image), 1.0f});
    return 2.0 * double(batch * image * channels * window * window) / slowest_median([&](int rank) {
             Buffers& b = of[size_t(rank)];
             hetsynth_convolution(2, sizes, strides, b.x.data(), b.y.data(), b.z.data());
           });
  }

  double loop_flops_per_second() {
    constexpr int64_t count = 4096;
    const NativeModule module = exponential_loop();
    auto* const loop = module.function<void(const float*, float*, long)>("loop");
    std::vector<Buffers> of(static_cast<size_t>(ranks_), {size_t(count), 1.0f});
    return double(count) * flops(exp(Expr::input(0))) / slowest_median([&](int rank) {
             Buffers& b = of[size_t(rank)];
             loop(b.x.data(), b.z.data(), count);
           });
  }

  double memory_bytes_per_second() {
    const size_t count = size_t(options_.memory_bytes) / 3 / sizeof(float);
    std::vector<Buffers> of(static_cast<size_t>(ranks_), {count, 1.0f});
    return 3.0 * double(count * sizeof(float)) / slowest_median([&](int rank) {
             Buffers& b = of[size_t(rank)];
             for (size_t i = 0; i < count; ++i) b.z[i] = b.x[i] + 0.5f * b.y[i];
           });
  }

  static std::vector<std::string> names(int ranks) {
    std::vector<std::string> out;
    for (int rank = 0; rank < ranks; ++rank) out.push_back(fmt::format("core {}", rank));
    return out;
  }

  double slowest_median(const std::function<void(int)>& work) {
    return hetsynth::slowest_median(threads_, ranks_, options_.seconds, work);
  }

  /// Median seconds of gathering so many floats, an equal part from every rank.
  double gather_seconds(int64_t floats) {
    std::vector<int64_t> bounds;
    for (int64_t i = 0; i <= ranks_; ++i) bounds.push_back(floats / ranks_ * i);
    // The number of rounds is agreed on beforehand: every rank has to make the same calls.
    const int rounds = int(std::clamp(4e9 * options_.seconds / double(floats * 4), 5.0, 2000.0));
    std::vector<std::vector<float>> parts(static_cast<size_t>(ranks_)), wholes(static_cast<size_t>(ranks_));
    return hetsynth::slowest_median(threads_, ranks_, rounds, [&](int rank) {
      // First touched by the thread that uses it.
      if (wholes[size_t(rank)].empty()) {
        parts[size_t(rank)].assign(size_t(floats / ranks_), 1.0f);
        wholes[size_t(rank)].assign(size_t(floats), 0.0f);
      }
      Communicator& communicator = *communicators_[size_t(rank)];
      CollectiveCall call;
      call.kind = CollectiveKind::all_gather;
      call.bounds = bounds;
      call.source = parts[size_t(rank)].data();
      call.destination = wholes[size_t(rank)].data();
      communicator.begin_step();
      communicator.run(call);
      communicator.end_step();
    });
  }

  const int ranks_;
  const ProbeOptions options_;
  RunState state_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  RankThreads threads_;
};

}  // namespace

ProbeResult probe_cores(int ranks, const ProbeOptions& options) {
  HETSYNTH_CHECK(ranks >= 1, "at least one rank");
  try {
    Probe probe(ranks, options);
    return {probe.speed(), probe.link()};
  } catch (const std::bad_alloc&) {
    throw UserError({.tag = "probe",
                     .message = "there is not enough memory for the measurement",
                     .expected = fmt::format("{} MiB for each of {} ranks", options.memory_bytes >> 20, ranks)},
                    ExitCode::failure);
  }
}

}  // namespace hetsynth
