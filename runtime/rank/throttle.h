// Makes a thread act as a slower device: it gets only a share of a core's time.
#pragma once

namespace hetsynth {

/// CPU time of the calling thread and the wall clock, in seconds.
double thread_cpu_seconds();
double wall_seconds();

/// After computing for c seconds of CPU time, a device of share `duty` may go on once c / duty seconds have passed.
/// Time the thread spent off its core because other ranks used it counts as passed. What a sleep missed or overshot is
/// carried to the next.
class Throttle {
 public:
  explicit Throttle(double duty) : duty_(duty) {}
  /// Sleeps as long as the compute time just passed asks for; seconds slept.
  double pay(double cpu_seconds, double elapsed_seconds);

 private:
  double duty_;
  double debt_seconds_ = 0;
};

}  // namespace hetsynth
