// Ctrl-C and SIGTERM ask the run to stop after the current step; a second one ends the process at once.
#pragma once
#include <signal.h>

namespace hetsynth {

/// While alive, SIGINT and SIGTERM set a flag instead of ending the process. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Whether a signal has come since construction.
  bool requested() const;

 private:
  struct sigaction previous_interrupt_, previous_terminate_;
};

/// Whether a signal has come since the last InterruptGuard was made.
bool stop_requested();

}  // namespace hetsynth
