// CUDA C++ to GPU code with NVRTC, opened at run time, and for older GPUs with Clang. Needs the toolkit's library,
// neither a GPU nor a driver.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

enum class CudaCompileStatus : uint8_t {
  compiled,
  rejected,     ///< the source has errors: see `log`
  unavailable,  ///< no NVRTC here, or it does not know the architecture: see `log`
};

struct CudaCode {
  CudaCompileStatus status = CudaCompileStatus::unavailable;
  std::string cubin;  ///< machine code (ELF) for exactly the architecture, or PTX; empty unless compiled
  std::string log;    ///< NVRTC's messages, warnings included, or why it is unavailable
  bool from_cache = false;
  bool ok() const { return status == CudaCompileStatus::compiled; }
};

struct CudaToolkit {
  bool available = false;
  std::string problem;  ///< why not
  std::string path;     ///< of libnvrtc
  std::string origin;   ///< how it was come by, as origin() of runtime/jit/shared_library.h says it
  int major = 0;
  int minor = 0;
  std::vector<std::string> architectures;  ///< "sm_75", ..., ascending
  std::string include_directory;           ///< with cuda_bf16.h; empty if there is none
  /// Older architectures that Clang compiles for with the toolkit's libdevice; the driver makes machine code of its
  /// PTX.
  std::vector<std::string> through_clang = {};
  std::string device_library = {};  ///< path of libdevice.10.bc; empty if there is none
  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// NVRTC of this machine, looked for once.
const CudaToolkit& cuda_toolkit();

/// Compiles one file of kernels; `name` is what messages call it, `architecture` as "sm_80", or as "compute_80" for PTX
/// in place of machine code. For architectures `through_clang` the result is PTX too. Keeps results on disk by content,
/// architecture, toolkit and options. C++17 unless the options say otherwise; the toolkit's headers are found. Never
/// throws for what the source, the machine or the architecture lacks. Any number of threads may compile at the same
/// time.
CudaCode compile_cuda(std::string_view source, const std::string& name, const std::string& architecture,
                      const std::vector<std::string>& options = {});

}  // namespace hetsynth
