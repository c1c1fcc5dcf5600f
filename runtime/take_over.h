// The parameters and states of some ranks, handed to other ranks of the same run.
#pragma once
#include <vector>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/migration.h"
#include "runtime/collectives/rank_device.h"
#include "runtime/processes/job.h"
#include "runtime/processes/message_communicator.h"

namespace hetsynth {

/// Where the tensors of a rank lie. Both are null for a rank of another process.
struct RankMemory {
  const DeviceProgram* layout = nullptr;
  RankDevice* device = nullptr;
};

/// The ranks of one program.
struct RankMemories {
  std::vector<RankMemory> ranks;
  ProcessOfRank process_of;  ///< where there are several processes
};

/// Carries out a migration from old ranks to new ones: tensor by tensor where both are here, and one stream of bytes to
/// each other process. Reads the old ranks and writes the new ones alone. No rank is at work meanwhile. `job`: null if
/// all ranks are here; otherwise all processes call it alike. Throws RunFailed when another process failed.
void take_over(const Program& reference, const RankMemories& from, const RankMemories& to, const Migration& migration,
               Job* job);

}  // namespace hetsynth
