// What the ranks of a run share besides data: the first failure, the order to stop, and who waits where.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hetsynth {

/// The failure that ended a run: the first one, not those it caused elsewhere.
struct RankFailure {
  int rank = -1;  ///< -1: no single rank is at fault
  std::string message;
  std::exception_ptr cause;  ///< the exception the rank threw, if it threw one
};

/// Thrown to whoever drives the ranks. `what()` names the rank and its device.
class RunFailed : public std::runtime_error {
 public:
  RunFailed(const RankFailure& failure, const std::string& text) : std::runtime_error(text), failure_(failure) {}
  const RankFailure& failure() const { return failure_; }

 private:
  RankFailure failure_;
};

class RunState;

/// A place where a fixed number of rank threads wait for each other, again and again. Waiting sleeps after a short
/// spin, since there may be more ranks than cores.
class Barrier {
 public:
  Barrier(RunState& state, int members);
  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  /// Returns when all members have arrived: true; or as soon as the run is being aborted: false. `what` says, for
  /// messages, what the rank waits for; it is called only if the rank has to sleep.
  bool arrive_and_wait(int rank, const std::function<std::string()>& what);

 private:
  friend class RunState;
  void wake();
  RunState& state_;
  const uint32_t members_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

/// Shared by all ranks of one process. Once a failure is recorded the run cannot go on: every wait returns false from
/// then on.
class RunState {
 public:
  explicit RunState(std::vector<std::string> rank_names);

  int ranks() const { return static_cast<int>(names_.size()); }
  /// "rank 2 (slow0)".
  std::string describe(int rank) const;
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  /// Records the failure unless there is one already, and wakes all waiting ranks.
  void fail(int rank, std::string message, std::exception_ptr cause = nullptr);
  std::optional<RankFailure> failure() const;
  /// Throws RunFailed if a failure was recorded; a UserError that caused it is rethrown as it was.
  void rethrow_failure() const;

  /// All ranks are about to work. To be called before any of them starts.
  void begin();
  /// How far a rank is, for those who watch it.
  struct Progress {
    uint64_t arrivals = 0;  ///< at barriers, since the run began
    bool stopped = false;   ///< it waits, or has ended its step
    std::string waits_in;   ///< what it waits in; empty if it does not
  };
  Progress progress(int rank) const;
  /// The rank waits for ranks of other processes, whose messages are no barrier of this one; and it goes on.
  void begin_exchange(int rank, std::string what);
  void end_exchange(int rank) { set_running(rank); }

  /// The rank will join no more collectives until the next `begin`. If the others then wait for each other or for it,
  /// that is a deadlock: recorded as a failure that names what every rank waits for.
  void set_finished(int rank);

 private:
  friend class Barrier;
  struct RankStatus {
    enum class Kind : uint8_t { running, waiting, exchanging, finished } kind = Kind::running;
    const Barrier* barrier = nullptr;
    uint32_t phase = 0;
    std::string what;
    /// Nothing that this rank does can help others on.
    bool stopped() const { return kind == Kind::waiting || kind == Kind::finished; }
  };
  void add(Barrier* barrier);
  void remove(Barrier* barrier);
  void set_running(int rank);
  void set_waiting(int rank, const Barrier* barrier, uint32_t phase, std::string what);
  void check_deadlock(std::unique_lock<std::mutex>& lock);

  const std::vector<std::string> names_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::optional<RankFailure> failure_;
  std::vector<RankStatus> status_;
  std::vector<std::atomic<uint64_t>> arrivals_;  ///< by rank
  std::vector<Barrier*> barriers_;
  int stopped_ = 0;  ///< ranks that are not running
  bool spin_;        ///< a core per rank: a short spin before sleeping pays
};

}  // namespace hetsynth
