#include "runtime/rank/throttle.h"

#include <time.h>

#include <algorithm>

namespace hetsynth {
namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Shorter sleeps cost more in wake-ups than they are accurate.
constexpr double shortest_sleep_seconds = 100e-6;
// Time a thread was off its core before is credit, but not without end: a device cannot save up a burst.
constexpr double largest_credit_seconds = 10e-3;

}  // namespace

double thread_cpu_seconds() { return seconds(CLOCK_THREAD_CPUTIME_ID); }
double wall_seconds() { return seconds(CLOCK_MONOTONIC); }

double Throttle::pay(double cpu_seconds, double elapsed_seconds) {
  if (duty_ >= 1) return 0;
  debt_seconds_ = std::max(debt_seconds_ + cpu_seconds / duty_ - elapsed_seconds, -largest_credit_seconds);
  if (debt_seconds_ < shortest_sleep_seconds) return 0;
  const double start = wall_seconds();
  timespec span;
  span.tv_sec = static_cast<time_t>(debt_seconds_);
  span.tv_nsec = static_cast<long>((debt_seconds_ - static_cast<double>(span.tv_sec)) * 1e9);
  nanosleep(&span, nullptr);
  const double slept = wall_seconds() - start;
  debt_seconds_ -= slept;
  return slept;
}

}  // namespace hetsynth
