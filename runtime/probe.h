// Measures what this machine's cores deliver as devices: the numbers the cost model plans with.
#pragma once
#include <cstdint>

#include "runtime/rank/probe_result.h"

namespace hetsynth {

struct ProbeOptions {
  int64_t matmul_extent = 768;
  int64_t memory_bytes = 96 << 20;   ///< of the arrays each rank walks over
  int64_t message_bytes = 16 << 20;  ///< of the gathered tensor
  double seconds = 0.4;              ///< per measurement
};

/// Runs `ranks` threads, one core each. Throws UserError if there is not enough memory.
ProbeResult probe_cores(int ranks, const ProbeOptions& options = {});

}  // namespace hetsynth
