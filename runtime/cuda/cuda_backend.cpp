#include "runtime/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "runtime/cuda/cudnn_numbers.h"
#include "runtime/cuda/nccl_ranks.h"
#include "runtime/jit/cuda_generation.h"

namespace hetsynth::cuda {
namespace {

/// Two ranks on one GPU are an error of NCCL before this version.
constexpr int nccl_with_shared_gpus = 23000;

struct Wanting {
  std::string message, expected, found, mend;
};

[[noreturn]] void refuse(const Device& device, const Wanting& wanting) {
  Diagnostic diagnostic;
  diagnostic.tag = "device";
  diagnostic.message = fmt::format("device {} is a cuda device, and {}", device.name, wanting.message);
  diagnostic.expected = wanting.expected;
  diagnostic.found = wanting.found;
  diagnostic.mend = wanting.mend.empty() ? std::string(
                                               "run on a cluster of cpu devices; plan, verify and inspect work "
                                               "for this cluster on any machine")
                                         : wanting.mend;
  throw UserError(diagnostic, ExitCode::failure);
}

std::string error_text(const Driver& driver, int error) {
  const char* text = nullptr;
  driver.error_text(error, &text);
  return text ? text : fmt::format("error {}", error);
}

/// "13.0" from 13000.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void require_driver(const Backend& backend, const Device& device) {
  const Api& api = *backend.api;
  if (!api.has_driver)
    refuse(device, {"this machine has no NVIDIA driver (libcuda.so.1 cannot be loaded)", "an NVIDIA driver",
                    api.driver_problem, ""});
  if (int error = api.driver.init(0))
    refuse(device, {"the NVIDIA driver does not start", "cuInit to succeed", error_text(api.driver, error),
                    "`nvidia-smi` shows whether driver and GPUs work; containers must be given the GPUs"});
  if (!backend.toolkit.available)
    refuse(device, {"its kernels cannot be compiled", "libnvrtc.so.13 or .12", backend.toolkit.problem,
                    "install the CUDA toolkit's NVRTC, or set CUDA_HOME to where it is"});
  int version = 0;
  api.driver.version(&version);
  if (version / 1000 < backend.toolkit.major)
    refuse(device, {"the driver is older than the toolkit",
                    fmt::format("a driver of CUDA {} or later, as NVRTC {} compiles for", backend.toolkit.major,
                                backend.toolkit.version()),
                    fmt::format("a driver of CUDA {}", version_text(version)),
                    fmt::format("update the driver, or install NVRTC {} (libnvrtc.so.{}) instead", version / 1000,
                                version / 1000)});
  if (!api.has_cublas)
    refuse(device, {"its matrix products need cublasLt", "libcublasLt.so.13 or .12", api.cublas_problem,
                    "install cuBLAS, or set CUDA_HOME to where it is"});
}

std::string require_architecture(const Backend& backend, const Device& device) {
  const Driver& driver = backend.api->driver;
  int count = 0, handle = 0, major = 0, minor = 0;
  driver.device_count(&count);
  if (device.index < 0 || device.index >= count)
    refuse(device, {fmt::format("it is GPU {} of its host", device.index), fmt::format("{} GPUs", device.index + 1),
                    counted(count, "GPU"), "CUDA_VISIBLE_DEVICES may hide some; `hetsynth doctor` lists what is seen"});
  if (driver.device_get(&handle, device.index) || driver.device_attribute(&major, attribute_major, handle) ||
      driver.device_attribute(&minor, attribute_minor, handle))
    refuse(device, {fmt::format("GPU {} does not tell its architecture", device.index), "a compute capability", "none",
                    "`nvidia-smi` shows whether the GPU works"});
  std::string architecture = fmt::format("sm_{}{}", major, minor);
  std::vector<std::string> known = backend.toolkit.through_clang;
  known.insert(known.end(), backend.toolkit.architectures.begin(), backend.toolkit.architectures.end());
  if (std::find(known.begin(), known.end(), architecture) == known.end())
    refuse(device,
           {fmt::format("NVRTC {} does not compile for its architecture", backend.toolkit.version()),
            fmt::format("one of {}", fmt::join(known, ", ")), architecture,
            major < 8
                ? "install NVRTC 12 (libnvrtc.so.12), the last for older GPUs, or the toolkit's libdevice.10.bc, with "
                  "which Clang compiles for sm_60 and sm_70"
                : "install a newer NVRTC"});
  return architecture;
}

/// Libraries of CUDA 13 open on any machine, and fail in the first step on GPUs that they have no code for.
void require_code(const Api& api, const Device& device, const std::string& architecture, bool with_nccl) {
  CudaMachine machine;
  api.driver.version(&machine.driver);
  machine.oldest_gpu = std::stoi(architecture.substr(3));
  const auto require = [&](const char* library, int release, const std::string& path, const std::string& package) {
    if (release == 0 || works_on(machine, release)) return;
    const bool old = release <= machine.driver / 1000;
    refuse(device,
           {fmt::format("{} of CUDA {} has no code for {}", library, release,
                        old ? "its architecture" : "so old a driver"),
            old ? fmt::format("{} of CUDA 12, the last for GPUs before sm_{}", library, oldest_gpu_of_cuda_13)
                : fmt::format("{} of CUDA {}, as the driver", library, machine.driver / 1000),
            fmt::format("{} and {}", old ? architecture : "a driver of CUDA " + version_text(machine.driver),
                        path.empty() ? "no other" : path),
            fmt::format("pip install {}, or install it with CUDA 12 and set CUDA_HOME to where it is", package)});
  };
  require("cublasLt", api.cublas.version ? int(api.cublas.version() / 10000) : 0, api.cublas_path,
          "nvidia-cublas-cu12");
  if (with_nccl) require("NCCL", api.nccl_release, api.nccl_path, "nvidia-nccl-cu12");
}

/// Where the cluster file says so: programs are generated for it, with or without.
void require_cudnn(const Api& api, const Device& device, const std::string& architecture) {
  if (device.attention() != AttentionBy::cudnn) return;
  const std::string mend =
      "write attention = \"generated\" under `declared` of the device in the cluster file, without another under "
      "`measured`, and plan again";
  if (!api.has_cudnn)
    refuse(device, {"the cluster file says that its attention is computed by cuDNN",
                    fmt::format("libcudnn.so.9, version {} or later", cudnn::version_text(cudnn::least_version)),
                    api.cudnn_problem, "install cuDNN, set CUDA_HOME to where it is, or " + mend});
  if (architecture.size() < std::string_view("sm_80").size() ||
      (architecture.size() == std::string_view("sm_80").size() && architecture < "sm_80"))
    refuse(device,
           {"the cluster file says that its attention is computed by cuDNN", "sm_80 or later", architecture, mend});
}

/// `gpus`: of the whole run; `here`: those of this process.
void require_nccl(const Api& api, const std::vector<const Device*>& gpus, const std::vector<const Device*>& here) {
  if (gpus.size() < 2) return;
  const Device& first = *here.front();
  if (!api.has_nccl)
    refuse(first,
           {fmt::format("{} GPUs exchange data through NCCL", gpus.size()), "libnccl.so.2, version 2.18 or later",
            api.nccl_problem, "install NCCL, set CUDA_HOME to where it is, or use a cluster with one GPU"});
  int version = 0;
  api.nccl.version(&version);
  std::map<int, const Device*> by_index;
  for (const Device* gpu : here) {
    if (gpu->host != first.host)
      refuse(*gpu, {fmt::format("it is on another host than {}", first.name), "GPUs of one host in one process",
                    "GPUs of several hosts",
                    "start a process for each host or device by mpirun: docs/runtime.md, section Several processes"});
    const Device*& other = by_index[gpu->index];
    if (other && version < nccl_with_shared_gpus)
      refuse(*gpu, {fmt::format("it is the same GPU {} as {}", gpu->index, other->name),
                    "a GPU for each rank, or NCCL 2.30 or later", "NCCL " + nccl_version_text(version),
                    "give the devices different `index`, or let a device stand for the whole GPU"});
    other = gpu;
  }
}

}  // namespace

namespace {
const Backend* stands_in = nullptr;
}  // namespace

void stand_in(const Backend* backend) { stands_in = backend; }

const Backend& this_machine() {
  if (stands_in) return *stands_in;
  static const Backend backend{&api(), cuda_toolkit(), [](const auto& source, const auto& name, const auto& target) {
                                 return compile_cuda(source, name, target);
                               }};
  return backend;
}

std::vector<std::string> require_cuda(const Backend& backend, const std::vector<Device>& devices,
                                      const std::vector<int>& here) {
  std::vector<std::string> out(devices.size());
  std::vector<const Device*> gpus, own;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank].kind != DeviceKind::cuda) continue;
    gpus.push_back(&devices[rank]);
    if (here.empty() || std::find(here.begin(), here.end(), int(rank)) != here.end()) own.push_back(&devices[rank]);
  }
  if (own.empty()) return out;
  require_driver(backend, *own.front());
  require_nccl(*backend.api, gpus, own);
  for (const Device* device : own) {
    std::string& architecture = out[size_t(device - devices.data())];
    architecture = require_architecture(backend, *device);
    require_code(*backend.api, *device, architecture, gpus.size() > 1);
    require_cudnn(*backend.api, *device, architecture);
  }
  return out;
}

}  // namespace hetsynth::cuda
