// Links between the hosts of a job, measured by messages like those of a run.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"
#include "runtime/processes/job.h"

namespace hetsynth {

struct LinkProbeOptions {
  double seconds = 0.4;  ///< for each pair of hosts
};

/// What one pair of processes found. Of both directions at the same time the bandwidth is that of each.
struct PairLink {
  int first = 0, second = 0;
  Link link;
};

struct LinkProbeResult {
  std::vector<PairLink> pairs;
  /// The slowest of all, in bandwidth and in latency.
  Link slowest;
  /// By process: bytes, sent and received, that cost a core a second of computing (packing, adding up and what the
  /// system does with them).
  std::vector<double> message_bytes_per_second;
};

/// Pair after pair, while the others wait. All processes of the job call it alike, and all get the result. Throws
/// RunFailed if another process fails.
LinkProbeResult probe_links(Job& job, const LinkProbeOptions& options = {});

}  // namespace hetsynth
