// A rank on a GPU: context, module, streams, events, memory and communicators behind the executor's seam. Never
// executed on a GPU so far: tests drive it through doubles of the library tables.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collectives/rank_device.h"
#include "runtime/cuda/device_product.h"
#include "runtime/cuda/epilogue_kernels.h"
#include "runtime/cuda/nccl_ranks.h"

namespace hetsynth::cuda {

/// A green context of a GPU: some of its multiprocessors, as a device of its own.
struct GpuPart {
  void* green = nullptr;
  void* context = nullptr;  ///< made of it
  int multiprocessors = 0;
};

/// What a cuda rank needs besides its memory.
struct CudaRank {
  int rank = 0;
  int ordinal = 0;                          ///< of the GPU on its host
  GpuPart part = {};                        ///< without a context: all of the GPU
  std::string cubin;                        ///< machine code of the kernels file
  EpilogueKernels::Compile compile = {};    ///< for this GPU, where a library lacks something
  StepFunction step;                        ///< the host program, linked against `cuda_symbols`
  std::vector<std::string> kernels;         ///< `hetsynth_kernels` of the host program
  int events = 0;                           ///< `hetsynth_event_count`
  std::vector<NamedBytes> largest_tensors;  ///< for the message when memory runs out
  std::shared_ptr<NcclRanks> ranks;
  /// Record the second step and replay it from then on. All ranks of a run alike; not where collectives go through the
  /// host.
  bool replays = false;
};

/// A cuda device over these libraries, which must outlive it. Functions throw std::runtime_error naming the call that
/// failed, and UserError (exit code 1) if the device has no room for the rank.
std::unique_ptr<RankDevice> cuda_device(const Api& api, CudaRank rank);

/// Names and addresses of what generated host programs of cuda devices call: the functions of codegen/interface/abi.h,
/// and NCCL's by their own names. NCCL's go through the runtime, as its communicators do not block.
std::vector<std::pair<std::string, void*>> cuda_symbols();

}  // namespace hetsynth::cuda
