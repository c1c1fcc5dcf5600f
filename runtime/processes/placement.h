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

/// Before there is a plan, which may leave devices out: throws as place_ranks if there are more processes than devices.
void check_processes(const Cluster& devices, int processes);

/// Tells for every rank how many threads a library may use inside it. Where the description does not say so, ranks
/// share the cores of this process's machine equally.
std::vector<int> threads_of_ranks(const Cluster& ranks, const Job& job, const ProcessOfRank& process_of);

}  // namespace hetsynth
