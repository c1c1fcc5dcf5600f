#include "runtime/rank/rank_threads.h"

#include <hwloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "runtime/rank/core_quota.h"
#include "runtime/rank/notice.h"
#include "runtime/rank/openmp.h"
#include "runtime/rank/stall_watch.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
/// Binds the calling thread to the NUMA node of its rank: memory it touches first then lies there.
class NumaBinding {
 public:
  /// The machine's nodes, which are looked at once: it takes some 10 ms of a core.
  static const NumaBinding& of_machine() {
    static const NumaBinding nodes;
    return nodes;
  }
  NumaBinding(const NumaBinding&) = delete;
  NumaBinding& operator=(const NumaBinding&) = delete;

  void bind_this_thread(int rank, int ranks) const {
    if (nodes_ < 2) return;
    const int node = static_cast<int>(static_cast<int64_t>(rank) * nodes_ / ranks) % nodes_;
    if (hwloc_obj_t object = hwloc_get_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(node))) {
      // Refusal (a container's limits) costs speed, not correctness.
      (void)hwloc_set_cpubind(topology_, object->cpuset, HWLOC_CPUBIND_THREAD);
    }
  }

 private:
  NumaBinding() {
    if (hwloc_topology_init(&topology_) != 0) return;
    if (hwloc_topology_load(topology_) == 0)
      nodes_ = std::max(0, hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_NUMANODE));
  }
  ~NumaBinding() {
    if (topology_) hwloc_topology_destroy(topology_);
  }

  hwloc_topology_t topology_ = nullptr;
  int nodes_ = 0;
};

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  static const int quota = quota_of_this_process().value_or(std::numeric_limits<int>::max());
  return std::clamp(CPU_COUNT(&set), 1, quota);
}

struct RankThreads::Impl {
  Impl(RunState& run_state, const ThreadOptions& options, const std::vector<int>& ranks)
      : state(run_state),
        quiet_seconds(options.quiet_seconds),
        threads_of_rank(options.threads_of_rank),
        binds(options.bind_to_numa_nodes && ranks.size() > 1) {
    if (options.threads_per_rank > 0)
      threads_of_rank.assign(size_t(state.ranks()), options.threads_per_rank);
    else if (threads_of_rank.empty())
      threads_of_rank.assign(size_t(state.ranks()), std::max(1, usable_cores() / int(ranks.size())));
    for (const int rank : ranks) threads.emplace_back([this, rank] { serve(rank); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void serve(int rank) {
    if (binds) NumaBinding::of_machine().bind_this_thread(rank, state.ranks());
    set_openmp_threads(threads_of_rank.at(size_t(rank)));
    for (uint64_t seen = 0;;) {
      const std::function<void(int)>* current = nullptr;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return closing || round != seen; });
        if (closing) return;
        seen = round;
        current = work;
      }
      call(*current, rank);
      state.set_finished(rank);
      std::lock_guard lock(mutex);
      if (--working == 0) finished.notify_all();
    }
  }

  void call(const std::function<void(int)>& current, int rank) {
    try {
      current(rank);
    } catch (const std::exception& error) {
      state.fail(rank, error.what(), std::current_exception());
    } catch (...) {
      state.fail(rank, "unknown exception", std::current_exception());
    }
  }

  RunState& state;
  const double quiet_seconds;
  std::vector<int> threads_of_rank;
  const bool binds;  ///< threads to NUMA nodes
  std::mutex mutex;
  std::condition_variable changed, finished;
  const std::function<void(int)>* work = nullptr;
  uint64_t round = 0;
  int working = 0;
  bool closing = false;
  std::vector<std::thread> threads;
};

namespace {

std::vector<int> all_ranks(const RunState& state) {
  std::vector<int> out(size_t(state.ranks()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

RankThreads::RankThreads(RunState& state, const ThreadOptions& options, std::vector<int> ranks)
    : impl_(std::make_unique<Impl>(state, options, ranks.empty() ? all_ranks(state) : ranks)) {}
RankThreads::~RankThreads() = default;

void RankThreads::run(const std::function<void(int)>& work) {
  impl_->state.rethrow_failure();
  impl_->state.begin();
  {
    std::unique_lock lock(impl_->mutex);
    impl_->work = &work;
    impl_->working = static_cast<int>(impl_->threads.size());
    ++impl_->round;
    impl_->changed.notify_all();
    StallWatch watch(impl_->state, impl_->quiet_seconds);
    while (!impl_->finished.wait_for(lock, std::chrono::seconds(1), [&] { return impl_->working == 0; }))
      if (const auto stalled = watch.look(wall_seconds())) warn("{}; Ctrl-C twice ends the run", *stalled);
  }
  impl_->state.rethrow_failure();
}

}  // namespace hetsynth
