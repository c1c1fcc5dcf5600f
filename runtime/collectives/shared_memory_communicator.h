// Collectives among rank threads of one process: every rank reads the others' buffers directly.
#pragma once
#include <memory>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "runtime/collectives/communicator.h"
#include "runtime/rank/run_state.h"

namespace hetsynth {

/// One communicator per rank of the mesh, in rank order, sharing the groups of every mesh axis. `duties` holds each
/// rank's share of a core (1: all of it). They must not outlive `state`. A rank that calls something else than its
/// peers makes the run fail with a message naming both. `on_gpu` (empty: none): of ranks of a group that holds GPUs and
/// others, only the first GPU takes part in calls that `reduces_among_leaders`.
std::vector<std::unique_ptr<Communicator>> shared_memory_communicators(const Mesh& mesh,
                                                                       const std::vector<double>& duties,
                                                                       RunState& state,
                                                                       const std::vector<bool>& on_gpu = {});

}  // namespace hetsynth
