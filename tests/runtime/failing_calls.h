// System calls of this thread that fail when a test wants them to. The test program has functions of the system's names
// that stand before those of the C library, so nothing that writes files can go around them.
#pragma once
#include <string>
#include <vector>

namespace hetsynth::testing {

/// While alive, counts the calls that open, write, sync, rename, link, remove, close or ask about files, and lets one
/// of them fail. One at a time.
class FailingCalls {
 public:
  /// The call number `failing` (from 0; -1: none) fails with `error`.
  explicit FailingCalls(int failing = -1, int error = 5);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  /// By order: "fsync 7", "renameat .hetsynth-...tmp model.safetensors".
  const std::vector<std::string>& calls() const;
};

}  // namespace hetsynth::testing
