// Collectives among ranks of several processes, by messages.
#pragma once
#include <memory>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "runtime/collectives/communicator.h"
#include "runtime/processes/group_messages.h"
#include "runtime/processes/job.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {

/// By rank, for the ranks of this process; null for others. As shared_memory_communicators, and with the same results
/// to the bit: reductions add in coordinate order. Every member sends each other one the part it needs; an all-reduce
/// is a reduce-scatter of equal shares and an all-gather. In hierarchical calls only the first ranks of hosts send to
/// other hosts.
std::vector<std::unique_ptr<Communicator>> message_communicators(const Mesh& mesh, const std::vector<double>& duties,
                                                                 RunState& state, const std::vector<bool>& on_gpu,
                                                                 Job& job, const ProcessOfRank& process_of);

}  // namespace hetsynth
