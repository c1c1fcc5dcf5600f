// How long a synthesis may take, and whom it tells.
#pragma once
#include <chrono>

#include "synth/stop.h"
#include "synth/synthesize.h"

namespace hetsynth::synth {

/// Shared by all searches of one synthesis.
class Budget {
 public:
  explicit Budget(const SynthesisOptions& options) : options_(options), started_(Clock::now()) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// True once the time is spent or the listener has had enough. The listener hears of it every tenth of a second.
  bool spent();
  /// Whether the time may end before the search does.
  bool limited() const { return options_.time_limit_seconds.has_value(); }
  /// Of the time; 0 without a limit, 1 once the listener has had enough.
  double part_spent();
  /// For the loops inside a search.
  Stop stop() {
    return Stop([this] { return !spent(); });
  }
  /// A plan was found: step seconds, and the proven bound at its shares.
  void found(double step_seconds, double bound_seconds);
  /// A search ended. `expansions`: of states.
  void searched(int64_t expansions = 0) {
    ++progress_.searches;
    progress_.expansions += expansions;
  }

 private:
  using Clock = std::chrono::steady_clock;
  void tell();

  const SynthesisOptions& options_;
  Clock::time_point started_;
  double told_seconds_ = 0;
  bool spent_ = false;
  SynthesisProgress progress_;
};

}  // namespace hetsynth::synth
