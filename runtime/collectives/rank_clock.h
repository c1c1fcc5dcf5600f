// Where a rank's time goes: what lies between collectives is computing, slowed down to the device's duty.
#pragma once
#include "runtime/collectives/communicator.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {

class RankClock {
 public:
  explicit RankClock(double duty) : throttles_(duty < 1), throttle_(duty) {}

  /// Whether the device acts as a slower one.
  bool throttles() const { return throttles_; }

  void start_compute() {
    cpu_start_ = thread_cpu_seconds();
    wall_start_ = wall_seconds();
  }
  void stop_compute() {
    const double elapsed = wall_seconds() - wall_start_;
    times.compute_seconds += elapsed;
    times.throttle_seconds += throttle_.pay(thread_cpu_seconds() - cpu_start_, elapsed);
  }

  RankTimes times;

 private:
  const bool throttles_;
  Throttle throttle_;
  double cpu_start_ = 0, wall_start_ = 0;
};

}  // namespace hetsynth
