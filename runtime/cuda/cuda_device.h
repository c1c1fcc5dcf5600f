// A rank on a GPU: context, module, streams, events and memory behind the executor's seam. Never executed on a GPU so
// far: tests drive it through doubles of the library tables.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/nccl_ranks.h"
#include "runtime/rank_device.h"

namespace hetsynth::cuda {

/// What a cuda rank needs besides its memory.
struct CudaRank {
  int rank = 0;
  int ordinal = 0;                   ///< of the GPU on its host
  std::string cubin;                 ///< machine code of the kernels file
  StepFunction step;                 ///< the host program, linked against `symbols`
  std::vector<std::string> kernels;  ///< `hetsynth_kernels` of the host program
  int events = 0;                    ///< `hetsynth_event_count`
  std::shared_ptr<NcclRanks> ranks;
};

/// A cuda device over these libraries, which must outlive it. Functions throw std::runtime_error naming the call that
/// failed.
std::unique_ptr<RankDevice> cuda_device(const Api& api, CudaRank rank);

/// Names and addresses of what generated host programs of cuda devices call: the functions of codegen/abi.h and NCCL's
/// own.
std::vector<std::pair<std::string, void*>> cuda_symbols(const Api& api);

}  // namespace hetsynth::cuda
