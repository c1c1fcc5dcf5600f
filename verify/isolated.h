// Verification in a process of its own, which is killed at its limits: a solver's own time-outs are not reliable, and a
// plan file from anyone is to be safe to check.
#pragma once
#include <functional>

#include "verify/verify.h"

namespace hetsynth {

struct IsolationOptions {
  /// Seconds beyond the verification's own limit until the process is killed.
  double grace_seconds = 5;
  /// Memory the process may take beyond what this one has; 0: no limit.
  int64_t memory_bytes = int64_t(4) << 30;
};

/// As verify; a process that is killed, crashes or runs out of memory gives the verdict unknown, with the reason as
/// summary. Verifies in this process where no other can be started.
Verification verify_isolated(const Program& reference, const SpmdProgram& program, const VerifyOptions& options = {},
                             const IsolationOptions& isolation = {});

/// The same with any work.
Verification run_isolated(const std::function<Verification()>& work, double limit_seconds, int64_t memory_bytes);

}  // namespace hetsynth
