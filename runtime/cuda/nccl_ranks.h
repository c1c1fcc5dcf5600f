// NCCL communicators of a run: one over all of its GPUs, and one per mesh axis split from it. None of them blocks, so
// that a rank can leave when another one dies.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/processes/job.h"
#include "runtime/processes/message_communicator.h"

namespace hetsynth::cuda {

/// What all GPU ranks of a run share before they are connected. Ranks of one process meet through this object; it gets
/// the id from the other processes, if there are any.
class NcclRanks {
 public:
  /// `on_gpu`: by rank. Ranks on other devices take no part.
  NcclRanks(const Nccl& library, Mesh mesh, std::vector<bool> on_gpu)
      : library_(library), mesh_(std::move(mesh)), on_gpu_(std::move(on_gpu)) {}

  /// Before ranks connect: hierarchical collectives run along these axes. `hosts`: as SpmdProgram::hosts.
  void set_levels(std::vector<int> hosts, std::vector<int> axes) {
    hosts_ = std::move(hosts), levelled_axes_ = std::move(axes);
  }
  const std::vector<int>& levelled_axes() const { return levelled_axes_; }
  /// Before ranks connect: stages send along these axes.
  void set_sending_axes(std::vector<int> axes) { sending_axes_ = std::move(axes); }
  const std::vector<int>& sending_axes() const { return sending_axes_; }
  /// The ranks of a rank's group along such an axis that share its host, and the leaders of the group's hosts. Empty
  /// where the group is not of GPUs alone: its ranks meet on the host.
  std::vector<int> on_host(int rank, int axis) const;
  std::vector<int> leaders(int rank, int axis) const;

  /// Agrees with the other processes on the id, which the process of the first GPU rank makes. All processes call it,
  /// also those without GPUs. Throws as `id_for`.
  void meet(Job& job, const ProcessOfRank& process_of);

  const Nccl& library() const { return library_; }
  const Mesh& mesh() const { return mesh_; }
  /// The GPU ranks of a rank's group along an axis, in order of their coordinates.
  std::vector<int> gpus_along(int rank, int axis) const;
  /// All GPU ranks.
  std::vector<int> gpus() const;
  bool on_gpu(int rank) const { return on_gpu_[size_t(rank)]; }

  /// The id under which all meet. Throws std::runtime_error if the rank's NCCL is of another version than one that came
  /// before: NCCL needs the same on all ranks.
  NcclUniqueId id_for(int rank);

 private:
  void make_id(int rank, int version);
  int loaded_version() const;
  [[noreturn]] void refuse_version(int version) const;
  const Nccl& library_;
  Mesh mesh_;
  std::vector<bool> on_gpu_;
  std::vector<int> hosts_, levelled_axes_, sending_axes_;
  std::mutex mutex_;
  std::optional<NcclUniqueId> id_;
  int first_rank_ = -1, version_ = 0;
};

/// "2.28.9" from 22809.
std::string nccl_version_text(int version);

/// One rank's communicators. All functions are called from the rank's thread with its device current.
class NcclConnection {
 public:
  /// Joins the other GPU ranks, all of which construct theirs. `stop`: whether the run is being aborted. Throws
  /// std::runtime_error with NCCL's words.
  NcclConnection(NcclRanks& ranks, int rank, std::function<bool()> stop);
  /// Leaves in good order, unless `abort` was called.
  ~NcclConnection();
  NcclConnection(const NcclConnection&) = delete;
  NcclConnection& operator=(const NcclConnection&) = delete;

  /// Over the GPU ranks of the group along a mesh axis; nullptr if the rank is the only one.
  void* along(int axis) const { return along_.at(size_t(axis)); }
  /// For hierarchical collectives: over the ranks on this host, and over the leaders; nullptr for a rank that is the
  /// only one or not among them.
  void* on_host(int axis) const { return on_host_.at(size_t(axis)); }
  void* leaders(int axis) const { return leaders_.at(size_t(axis)); }
  /// As `along`, for what is sent to higher coordinates, and to lower ones; nullptr where stages send nothing.
  void* rising(int axis) const { return rising_.at(size_t(axis)); }
  void* falling(int axis) const { return falling_.at(size_t(axis)); }
  /// What became of a call: waits while NCCL works on it. 0, or NCCL's error, or `nccl_in_progress` if the run is being
  /// aborted meanwhile.
  int settle(int status);
  /// NCCL's error if a communicator broke since; 0 if none did.
  int broken();
  /// Ends everything under way. Every rank of a run does so when one fails.
  void abort();
  std::string error_text(int error) const { return library_.error_text(error); }

 private:
  void require(int status, const char* call);
  void require_made(int status, const char* call);
  void connect(NcclRanks& ranks, int rank);
  void* split(const std::vector<int>& part, int rank);
  /// The communicators that are there, in order of their making.
  std::vector<void*> made();
  const Nccl& library_;
  std::function<bool()> stop_;
  /// Where NCCL puts communicators, some of them only when a thread of its own has made them: places that stay.
  std::deque<void*> slots_;
  std::vector<void*> along_, on_host_, leaders_, rising_, falling_;  ///< by axis
};

}  // namespace hetsynth::cuda
