// One thread per rank, alive for the whole run.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/run_state.h"

namespace hetsynth {

struct ThreadOptions {
  /// Threads an OpenMP library (oneDNN) may use inside one rank; 0: as many as cores divided by ranks, at least 1.
  int threads_per_rank = 0;
  /// Spread the ranks over the machine's NUMA nodes, where there are several.
  bool bind_to_numa_nodes = true;
};

/// Cores this process may use.
int usable_cores();

class RankThreads {
 public:
  /// `ranks`: those of this process; empty: all of the run.
  RankThreads(RunState& state, const ThreadOptions& options, std::vector<int> ranks = {});
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Runs `work(rank)` on the thread of each of these ranks and returns when all have ended. An exception ends the run
  /// for all ranks: throws what `RunState::rethrow_failure` gives, also for every later call.
  void run(const std::function<void(int)>& work);

  int threads_per_rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsynth
