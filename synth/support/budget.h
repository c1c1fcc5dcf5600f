// How much a synthesis may do, how long it may take, and whom it tells.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "synth/support/effort.h"
#include "synth/support/picoseconds.h"
#include "synth/support/stop_token.h"

namespace hetsynth {

/// How a synthesis is going. Steps' seconds are those of the cost model.
struct SynthesisProgress {
  double elapsed_seconds = 0;
  std::optional<double> best_seconds;  ///< a step of the fastest plan so far
  double bound_seconds = 0;            ///< proven for that plan's devices and shares
  int64_t searches = 0;                ///< at fixed shares, finished
  int64_t expansions = 0;              ///< of states, in these
};

/// What one strategy of planning took, tried and gained, over all meshes.
struct StrategyRecord {
  std::string name;
  int runs = 0;
  double seconds = 0;    ///< of planning
  int64_t work = 0;      ///< entries of cost tables looked at
  int64_t searches = 0;  ///< at fixed shares, finished
  int improved = 0;      ///< runs after which the best plan of the mesh was a better one than before
  double gained = 0;     ///< of these that had a plan before: seconds by which the step became shorter, in all
};

}  // namespace hetsynth

namespace hetsynth::synth {

/// Shared by all searches of one synthesis.
class Budget {
 public:
  /// Called every tenth of a second and for every better plan; false stops the synthesis.
  using Listener = std::function<bool(const SynthesisProgress&)>;

  /// `gives_up`: the work may end without a plan.
  explicit Budget(std::optional<double> limit_seconds = {}, Listener listener = {}, Effort effort = Effort::normal,
                  bool gives_up = false)
      : limit_seconds_(limit_seconds),
        effort_(effort),
        gives_up_(gives_up),
        listener_(std::move(listener)),
        started_(Clock::now()) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// True once the time is spent, the listener has had enough, or the work is done and there is a plan or need not be.
  /// The listener hears of it every tenth of a second.
  bool spent();
  /// Whether the work is done without a plan.
  bool gave_up() const { return gives_up_ && !progress_.best_seconds && work_ >= most_work(effort_); }
  /// The plan of another mesh begins.
  void begin_mesh() { work_before_mesh_ = work_; }
  /// Whether so little was done for the plan of this mesh that what seldom leads to anything may be tried.
  bool patient() const { return work_ - work_before_mesh_ < patience(effort_); }
  /// Whether the time may end before the search does.
  bool limited() const { return limit_seconds_.has_value(); }
  /// Of the time; 0 without a limit, 1 once the listener has had enough.
  double part_spent();
  /// For the loops inside a search.
  StopToken stop() {
    return StopToken([this] { return !spent(); }, &work_);
  }
  /// Returns a token for an attempt that may take a third of the work that the plan of this mesh took before, or what
  /// patience allows.
  StopToken stop_of_attempt() {
    const int64_t most = work_ + std::max((work_ - work_before_mesh_) / 3, patience(effort_));
    return StopToken([this, most] { return !spent() && work_ < most; }, &work_);
  }
  /// Steps that are found from now on are measured otherwise than those before, and not told.
  void measure_otherwise() { told_of_steps_ = false; }
  /// A plan was found: step seconds, and the proven bound at its shares.
  void found(double step_seconds, double bound_seconds);
  /// A search ended. `expansions`: of states.
  void searched(int64_t expansions = 0) {
    ++progress_.searches;
    progress_.expansions += expansions;
  }
  /// Runs a strategy and writes down what it took and gained. `best`: the cost of the best plan that fits, `forbidden`
  /// if there is none; asked before and after.
  void run(const char* strategy, const std::function<Picoseconds()>& best, const std::function<void()>& work);
  /// In the order in which they first ran.
  const std::vector<StrategyRecord>& strategies() const { return strategies_; }

 private:
  using Clock = std::chrono::steady_clock;
  void tell();

  std::optional<double> limit_seconds_;
  Effort effort_;
  bool gives_up_;
  Listener listener_;
  Clock::time_point started_;
  double told_seconds_ = 0;
  bool spent_ = false, told_of_steps_ = true;
  int64_t work_ = 0, work_before_mesh_ = 0;
  SynthesisProgress progress_;
  std::vector<StrategyRecord> strategies_;
};

}  // namespace hetsynth::synth
