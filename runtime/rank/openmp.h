// Threads of the OpenMP library that oneDNN brings, by the calling thread's own setting.
#pragma once

namespace hetsynth {

/// Threads a parallel region of the calling thread may use; 1 without OpenMP.
int openmp_threads();
void set_openmp_threads(int threads);

/// Threads of GNU's OpenMP wait for each other by spinning for about 10 milliseconds before they sleep. Where others
/// use the cores too, as on any shared machine, a thread that spins keeps off the core the one that it waits for: at
/// each barrier anew. How long it spins is read once, when the library is loaded; so the program, `arguments` being its
/// own, starts itself anew with a short spin (some 20 microseconds), unless the user has said how to wait: by
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT. Returns if there is nothing to do or it cannot be done.
void wait_passively(char** arguments);

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
