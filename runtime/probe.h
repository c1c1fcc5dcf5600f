// Measures what this machine's cores deliver as devices: the numbers the cost model plans with.
#pragma once
#include <cstdint>

#include "dsl/spmd/cluster.h"

namespace hetsynth {

/// What several ranks at work at the same time get: training keeps all of them busy, and cores share memory and power.
struct ProbeResult {
  /// Of each rank, in float32. Matrix products: square ones of `matmul_extent`; what a call costs: what a product of 32
  /// needs beyond that speed. Convolutions: 32 channels to 32 by windows of 3 x 3. Loops: exponentials of an array in
  /// the cache, counted as the cost model counts them. Memory: reads and writes together, arrays beyond the caches.
  DeviceSpeed speed;
  Link link;  ///< between ranks: an all-gather through shared memory; unlimited for one rank
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
