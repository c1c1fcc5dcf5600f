// Collectives of groups that hold cpu devices and GPUs: through pinned host memory, and within the GPUs through NCCL
// where that saves copies.
#pragma once
#include <functional>

#include "dsl/spmd/spmd.h"
#include "runtime/collectives/communicator.h"
#include "runtime/cuda/nccl_ranks.h"

namespace hetsynth::cuda {

/// The device side of a rank, as far as copies need it. Functions give 0 or an error of the driver, which the device
/// remembers with its words.
struct DeviceStream {
  void* stream = nullptr;
  std::function<int(void* to, DevicePointer from, size_t bytes)> to_host;
  std::function<int(DevicePointer to, const void* from, size_t bytes)> to_device;
  std::function<int()> synchronize;          ///< until the stream is done, or the run is being aborted
  std::function<int(int status)> nccl_done;  ///< what became of a call of NCCL
  /// Pinned memory of at least so many bytes; `which`: 0 source, 1 destination. nullptr: refused.
  std::function<void*(int which, size_t bytes)> pinned;
};

/// What the generated step of a GPU rank sees as its communicator: buffers are of the device. An all-reduce runs
/// in three parts: the GPUs of the group among themselves, the first of them with the cpu ranks, and back. All other
/// collectives copy each GPU's own part to the host and the result back.
class StagedCommunicator : public Communicator {
 public:
  /// `nccl`: nullptr if this is the only GPU.
  StagedCommunicator(Communicator& hosts, NcclRanks& ranks, NcclConnection* nccl, DeviceStream device)
      : hosts_(hosts), ranks_(ranks), nccl_(nccl), device_(std::move(device)) {}

  bool run(const CollectiveCall& call) override;
  int rank() const override { return hosts_.rank(); }
  int group_size(int axis) const override { return hosts_.group_size(axis); }
  int coordinate(int axis) const override { return hosts_.coordinate(axis); }
  const RankTimes& times() const override { return hosts_.times(); }
  void begin_step() override { hosts_.begin_step(); }
  void end_step() override { hosts_.end_step(); }

 private:
  bool through_host(const CollectiveCall& call, const void* source, size_t source_bytes, size_t destination_bytes);
  bool through_first_gpu(const CollectiveCall& call, size_t bytes);
  Communicator& hosts_;
  NcclRanks& ranks_;
  NcclConnection* nccl_;
  DeviceStream device_;
};

/// Bytes a rank gives and receives in a collective; `coordinate`: the rank's, along the axis.
struct CollectiveBytes {
  size_t source = 0, destination = 0;
};
CollectiveBytes bytes_of(const CollectiveCall& call, int coordinate);

}  // namespace hetsynth::cuda
