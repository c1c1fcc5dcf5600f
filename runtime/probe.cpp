#include "runtime/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "codegen/abi.h"
#include "dsl/base/error.h"
#include "runtime/rank_threads.h"
#include "runtime/shared_memory_communicator.h"

namespace hetsynth {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Probe {
 public:
  Probe(int ranks, const ProbeOptions& options)
      : ranks_(ranks), options_(options), state_(names(ranks)), threads_(state_, {1, true}) {
    Mesh mesh;
    mesh.axes = {{"rank", ranks}};
    communicators_ = shared_memory_communicators(mesh, std::vector<double>(size_t(ranks), 1.0), state_);
  }

  double matmul_flops_per_second() {
    const int64_t n = options_.matmul_extent;
    std::vector<Buffers> of(static_cast<size_t>(ranks_), {size_t(n * n), 1.0f});
    return 2.0 * double(n * n * n) / slowest_median([&](int rank) {
             Buffers& b = of[size_t(rank)];
             hetsynth_matmul(1, n, n, n, b.x.data(), 0, n, 1, b.y.data(), 0, n, 1, b.z.data(), 0, n, 1, 0);
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

  static std::vector<std::string> names(int ranks) {
    std::vector<std::string> out;
    for (int rank = 0; rank < ranks; ++rank) out.push_back(fmt::format("core {}", rank));
    return out;
  }

  /// Median seconds of the work on the rank that needs longest, all ranks at it at once.
  double slowest_median(const std::function<void(int)>& work) {
    std::vector<double> medians(static_cast<size_t>(ranks_));
    threads_.run([&](int rank) {
      work(rank);  // the first one touches memory and makes the library's code
      std::vector<double> seconds;
      const double end = now() + options_.seconds;
      while (now() < end || seconds.size() < 3) {
        const double start = now();
        work(rank);
        seconds.push_back(now() - start);
      }
      medians[size_t(rank)] = median(std::move(seconds));
    });
    return *std::max_element(medians.begin(), medians.end());
  }

  /// Median seconds of gathering so many floats, an equal part from every rank.
  double gather_seconds(int64_t floats) {
    std::vector<int64_t> bounds;
    for (int64_t i = 0; i <= ranks_; ++i) bounds.push_back(floats / ranks_ * i);
    // The number of rounds is agreed on beforehand: every rank has to make the same calls.
    const int rounds = int(std::clamp(4e9 * options_.seconds / double(floats * 4), 5.0, 2000.0));
    std::vector<double> medians(static_cast<size_t>(ranks_));
    threads_.run([&](int rank) {
      Communicator& communicator = *communicators_[size_t(rank)];
      std::vector<float> part(size_t(floats / ranks_), 1.0f), whole(size_t(floats), 0.0f);
      CollectiveCall call;
      call.kind = CollectiveKind::all_gather;
      call.bounds = bounds;
      call.source = part.data();
      call.destination = whole.data();
      communicator.begin_step();
      std::vector<double> seconds;
      for (int round = 0; round < rounds; ++round) {
        const double start = now();
        if (!communicator.run(call)) return;
        seconds.push_back(now() - start);
      }
      communicator.end_step();
      medians[size_t(rank)] = median(std::move(seconds));
    });
    return *std::max_element(medians.begin(), medians.end());
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
    return {probe.matmul_flops_per_second(), probe.memory_bytes_per_second(), probe.link()};
  } catch (const std::bad_alloc&) {
    throw UserError({.tag = "probe",
                     .message = "there is not enough memory for the measurement",
                     .expected = fmt::format("{} MiB for each of {} ranks", options.memory_bytes >> 20, ranks)},
                    ExitCode::failure);
  }
}

}  // namespace hetsynth
