// Which process of a run has which ranks.
#pragma once
#include "dsl/cluster/cluster.h"
#include "runtime/processes/job.h"
#include "runtime/processes/message_communicator.h"

namespace hetsynth {

/// With as many processes as ranks, process p has rank p. With as many as hosts (of the devices that run), each process
/// has the ranks of one host, in the order in which hosts first come up. `ranks`: devices in rank order. Throws
/// UserError (exit code 1) that names both numbers for any other.
ProcessOfRank place_ranks(const Cluster& ranks, int processes);

/// By rank: how many threads a library may use inside it. What the description does not say is an equal part of the
/// cores that the ranks on this process's machine share.
std::vector<int> threads_of_ranks(const Cluster& ranks, const Job& job, const ProcessOfRank& process_of);

}  // namespace hetsynth
