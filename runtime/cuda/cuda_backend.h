// Everything that cuda ranks need of a machine, in one place, so that tests can put doubles there.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "runtime/cuda/cuda_api.h"
#include "runtime/jit/nvrtc.h"

namespace hetsynth::cuda {

struct Backend {
  const Api* api = nullptr;
  CudaToolkit toolkit;  ///< what `compile` compiles with
  std::function<CudaCode(const std::string& source, const std::string& name, const std::string& architecture)> compile;
};

/// The libraries of this machine, opened on the first call.
const Backend& this_machine();
/// Tests: what stands in for this machine from now on; null: nothing any more. Before anything runs on GPUs.
void stand_in(const Backend* backend);

/// Whether the cuda devices among these (one per rank) can run in this process. Throws UserError (exit code 1) that
/// says what was found and what is needed: driver, its version, GPUs, their architectures, NCCL, cublasLt. Nothing is
/// allocated. Returns by rank the architecture to compile for, as the GPU tells it ("sm_90"); "" for cpu devices.
/// `here`: the ranks of this process, where other processes have the rest; none given: all, which have to be of one
/// host.
std::vector<std::string> require_cuda(const Backend& backend, const std::vector<Device>& devices,
                                      const std::vector<int>& here = {});

}  // namespace hetsynth::cuda
