// Measures what this machine's cores deliver as devices: the numbers the cost model plans with.
#pragma once
#include <cstdint>

#include "dsl/spmd/cluster.h"

namespace hetsynth {

/// What several ranks at work at the same time get: training keeps all of them busy, and cores share memory and power.
struct ProbeResult {
  double matmul_flops_per_second = 0;  ///< per rank, float32, square products of `matmul_extent`
  double memory_bytes_per_second = 0;  ///< per rank, reads and writes together, arrays beyond the caches
  Link link;                           ///< between ranks: an all-gather through shared memory; unlimited for one rank
};

struct ProbeOptions {
  int64_t matmul_extent = 768;
  int64_t memory_bytes = 96 << 20;   ///< of the arrays each rank walks over
  int64_t message_bytes = 16 << 20;  ///< of the gathered tensor
  double seconds = 0.4;              ///< per measurement
};

/// Runs `ranks` threads, one core each. Throws UserError if there is not enough memory.
ProbeResult probe_cores(int ranks, const ProbeOptions& options = {});

}  // namespace hetsynth
