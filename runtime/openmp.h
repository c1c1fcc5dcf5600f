// Threads of the OpenMP library that oneDNN brings, by the calling thread's own setting.
#pragma once

namespace hetsynth {

/// Threads a parallel region of the calling thread may use; 1 without OpenMP.
int openmp_threads();
void set_openmp_threads(int threads);

/// While alive, parallel regions of the calling thread run on that thread alone, if `alone`: regions of microseconds,
/// whose threads would wait for each other longer than they work, above all on a busy machine.
class AloneOnThisThread {
 public:
  explicit AloneOnThisThread(bool alone) : before_(alone ? openmp_threads() : 1) {
    if (before_ > 1) set_openmp_threads(1);
  }
  ~AloneOnThisThread() {
    if (before_ > 1) set_openmp_threads(before_);
  }
  AloneOnThisThread(const AloneOnThisThread&) = delete;
  AloneOnThisThread& operator=(const AloneOnThisThread&) = delete;

 private:
  int before_;
};

}  // namespace hetsynth
