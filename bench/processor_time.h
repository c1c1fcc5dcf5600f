// What a benchmark has used so far.
#pragma once
#include <sys/resource.h>
#include <time.h>

namespace hetsynth {

/// Gives the seconds that all threads of this process have computed for; unlike the time of day they hardly grow while
/// others use the machine.
inline double processor_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Gives the most memory, in GiB, that this process has taken so far.
inline double resident_gibibytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_maxrss) / (1 << 20);
}

}  // namespace hetsynth
