// What measuring the devices of this machine gives, whichever kind they are.
#pragma once
#include "dsl/cluster/cluster.h"

namespace hetsynth {

/// What several ranks at work at the same time get: training keeps all of them busy, and cores share memory and power.
struct ProbeResult {
  /// Of each rank, in float32. Matrix products: square ones of `matmul_extent`; what a call costs: what a product of 32
  /// needs beyond that speed. Convolutions: 32 channels to 32 by windows of 3 x 3. Loops: exponentials of an array in
  /// the cache, counted as the cost model counts them. Memory: reads and writes together, arrays beyond the caches.
  DeviceSpeed speed;
  Link link;  ///< between ranks: an all-gather through shared memory; unlimited for one rank
};

}  // namespace hetsynth
