#include "runtime/rank/interrupt.h"

namespace hetsynth {
namespace {

volatile sig_atomic_t interrupted = 0;

// Only what is safe inside of a signal handler: a flag, and on the second signal the default action.
void on_signal(int number) {
  if (interrupted) {
    signal(number, SIG_DFL);
    raise(number);
  }
  interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &action, &previous_[i]);
    if (signals[i] == SIGHUP && previous_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &previous_[i], nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &previous_[i], nullptr);
}

bool InterruptGuard::requested() const { return stop_requested(); }

bool stop_requested() { return interrupted != 0; }

}  // namespace hetsynth
