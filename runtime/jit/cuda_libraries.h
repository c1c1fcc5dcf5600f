// What of CUDA this machine has: for `doctor`, and for deciding what can run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hetsynth {

struct LibraryStatus {
  std::string name = {};     ///< "driver", "NVRTC", "NCCL", "cublasLt", "cuDNN"
  std::string purpose = {};  ///< what hetsynth uses it for
  bool found = false;
  std::string version = {};  ///< "13.0"; empty unless found
  std::string path = {};     ///< of the file; empty unless found
  std::string origin = {};   ///< how it was come by: "found by the loader", "installed by pip"; empty unless found
  std::string problem = {};  ///< why it cannot be used; empty if found
  std::string needed = {};   ///< for which clusters, and what to do if it is missing
};

struct CudaDevice {
  std::string name;          ///< "NVIDIA A100-SXM4-80GB"
  std::string architecture;  ///< "sm_80"
  int64_t memory_bytes = 0;
};

struct CudaSupport {
  std::vector<LibraryStatus> libraries;  ///< in the order of their names above
  std::vector<CudaDevice> devices;
};

/// cuDNN 9.16: the first whose backward pass of attention is right where keys are no multiple of 128 without a padding
/// mask (cudnn-frontend, CompositeSDPABackwardNode; its issue 160), and whose plans need no handle (9.8).
constexpr size_t least_cudnn_version = 91600;

/// Opens each library in turn and asks for its version; all are optional. Loads hundreds of megabytes where they are
/// present (about a second when cold). Never opens the toolkit's stub of the driver.
CudaSupport cuda_libraries();

/// GPUs the driver shows, without opening anything but the driver; empty without a driver.
std::vector<CudaDevice> cuda_devices();

}  // namespace hetsynth
