// Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 ask the run to stop after the current step; a second one ends the process at
// once.
#pragma once
#include <signal.h>

#include <array>

namespace hetsynth {

/// While alive, these signals set a flag instead of ending the process; SIGHUP only where it is not ignored already, as
/// under nohup. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Whether a signal has come since construction.
  bool requested() const;

 private:
  static constexpr std::array<int, 4> signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  std::array<struct sigaction, signals.size()> previous_;
};

/// Whether a signal has come since the last InterruptGuard was made.
bool stop_requested();

}  // namespace hetsynth
