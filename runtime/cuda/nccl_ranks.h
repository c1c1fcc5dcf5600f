// NCCL communicators among the ranks of one process: one per mesh axis and group.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "runtime/cuda/cuda_api.h"

namespace hetsynth::cuda {

/// Shared by all ranks of a run.
class NcclRanks {
 public:
  NcclRanks(const Nccl& library, Mesh mesh) : library_(library), mesh_(std::move(mesh)) {}

  /// The rank's communicators by axis. Every rank calls this from its own thread with its device current; all meet
  /// inside. Throws std::runtime_error with NCCL's words.
  std::vector<void*> connect(int rank);
  const Nccl& library() const { return library_; }

 private:
  NcclUniqueId id_of(int axis, int first_rank);
  const Nccl& library_;
  Mesh mesh_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, NcclUniqueId> ids_;  ///< by axis and first rank of the group
};

}  // namespace hetsynth::cuda
