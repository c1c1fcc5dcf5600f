// How much memory the devices of a cluster need at least, all together, whatever the plan.
#pragma once
#include <string>

#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Bytes that are somewhere in the cluster at the same moment under every plan: each tensor at least once.
struct MemoryFloor {
  double parameters = 0, states = 0, inputs = 0;
  double activations = 0;  ///< of the moment at which most are needed later; gradients included
  NodeId peak = -1;        ///< what is being computed then
  double total() const { return parameters + states + inputs + activations; }
};

MemoryFloor memory_floor(const Problem& problem);

/// Bytes of all devices' memories; infinite if one of them has no limit.
double cluster_memory(const Cluster& cluster);

/// Throws UserError with ExitCode::infeasible if the devices' memories together are below the floor, naming the part
/// that is to blame and the least memory that would do.
void check_memory_floor(const Problem& problem);

/// "1.5 GiB"
std::string bytes_text(double bytes);

}  // namespace hetsynth::synth
