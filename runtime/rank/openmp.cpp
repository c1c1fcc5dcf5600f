#include "runtime/rank/openmp.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

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

void wait_passively(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  // The program is started by its own path: processes are known by the name under which they were started.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error || ::setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  ::execv(program.c_str(), arguments);
}

}  // namespace hetsynth
