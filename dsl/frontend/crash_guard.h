// A model that divides by zero, recurses without end or follows a wild pointer ends the process with a message, not
// with a bare signal.
#pragma once
#include <csignal>
#include <string>
#include <vector>

#include "dsl/ir/trace.h"

namespace hetsynth {

/// While alive, a fatal signal writes which model crashed and the last tensor it made to stderr, then leaves the
/// process with ExitCode::invalid_input: after such a signal nothing else is safe. Signals of other threads go where
/// they went before. One at a time per thread. Under AddressSanitizer it leaves the signals to the sanitizer.
class CrashGuard {
 public:
  /// `trace` may be null. Both arguments must outlive the guard.
  CrashGuard(const std::string& model_file, const Trace* trace);
  ~CrashGuard();
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;

 private:
  std::vector<char> stack_;  // the handler's own: the usual one may be what ran out
  stack_t previous_stack_{};
};

/// What the calls that end a process are in the code of a model, whichever thread makes them and whenever: a message
/// and ExitCode::invalid_input.
[[noreturn]] void exit_of_model(int code);

}  // namespace hetsynth
