// Which process of a run has which ranks.
#pragma once
#include "dsl/spmd/cluster.h"
#include "runtime/processes/job.h"
#include "runtime/processes/message_communicator.h"

namespace hetsynth {

/// With as many processes as ranks, process p has rank p. With as many as hosts (of the devices that run), each process
/// has the ranks of one host, in the order in which hosts first come up. `ranks`: devices in rank order. Throws
/// UserError (exit code 1) that names both numbers for any other.
ProcessOfRank place_ranks(const Cluster& ranks, int processes);

/// How many threads a library may use inside one rank of this process, if the ranks on this machine share its cores.
int threads_for_each_rank(const Job& job, const ProcessOfRank& process_of);

}  // namespace hetsynth
