// Which releases of the CUDA libraries can work on a machine: by its driver, and by its oldest GPU.
#pragma once
#include <string>
#include <vector>

#include "runtime/jit/shared_library.h"

namespace hetsynth {

/// What decides about libraries.
struct CudaMachine {
  int driver = 0;      ///< 13000: the latest CUDA that the driver runs is 13.0; 0: there is no driver
  int oldest_gpu = 0;  ///< 70: the lowest of the GPUs' architectures is sm_70; 0: there is no GPU
};

/// The machine's driver and GPUs, asked once.
const CudaMachine& cuda_machine();

/// CUDA 13 dropped what came before Turing: cublasLt 13 and builds of NCCL for CUDA 13 have no code for older GPUs
/// (CUDA 13.0 release notes, "Deprecated or Dropped Features").
constexpr int oldest_gpu_of_cuda_13 = 75;
/// Whether libraries of this release run under the driver, and have code for all GPUs.
bool works_on(const CudaMachine& machine, int release);
/// 13 and 12, those first that work on the machine.
std::vector<int> cuda_releases(const CudaMachine& machine);
/// File names of this machine's releases, best first: "libcublasLt.so.13", "libcublasLt.so.12".
std::vector<std::string> cuda_files(const std::string& name);

/// The release of CUDA that a libnccl was built for, which its file name does not tell: 12 by the text "+cuda12.4" in
/// the file; 0 if it has no such text.
int release_of_nccl(const std::string& path);
/// What speaks against a libnccl on this machine; "" if nothing does.
std::string objection_to_nccl(const SharedLibrary& library);

}  // namespace hetsynth
