#include "runtime/openmp.h"

#include <dlfcn.h>

namespace hetsynth {

// Asking for the library by name keeps the runtime free of a second one.
int openmp_threads() {
  using GetThreads = int (*)();
  static const auto get = reinterpret_cast<GetThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  return get ? get() : 1;
}

void set_openmp_threads(int threads) {
  using SetThreads = void (*)(int);
  static const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(threads);
}

}  // namespace hetsynth
