// Finds ranks that compute for ever: generated code has no end in sight for those who wait for it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rank/run_state.h"

namespace hetsynth {

/// Looked after by whoever waits for all ranks. A rank makes progress where it meets others in a collective, and where
/// its step ends; one that does neither for long is told of, with those who wait for it. It is not ended: a thread
/// cannot be, and a slow machine is no fault.
class StallWatch {
 public:
  /// `quiet_seconds`: without progress, before a rank is told of; the second time after twice as long, and so on.
  StallWatch(const RunState& state, double quiet_seconds);

  /// Looks at all ranks and gives what is to be told of them, if anything is. `now`: seconds of any clock that only
  /// goes forward. It is to be called about once a second while ranks work; longer gaps, in which nobody ran, do not
  /// count.
  std::optional<std::string> look(double now);

 private:
  struct Seen {
    uint64_t arrivals = 0;
    double quiet = 0;    ///< seconds without progress
    double tell_at = 0;  ///< of these
  };
  const RunState& state_;
  const double quiet_seconds_;
  std::optional<double> before_;
  std::vector<Seen> seen_;
};

}  // namespace hetsynth
