#include "runtime/jit/cuda_libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/jit/cuda_generation.h"
#include "runtime/jit/nvrtc.h"
#include "runtime/jit/shared_library.h"

namespace hetsynth {
namespace {

// The driver's interface, as far as it is used here (cuda.h); device attributes by number.
constexpr int attribute_major = 75;
constexpr int attribute_minor = 76;

/// "13.0.2" from 130002.
std::string version_text(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

struct Driver {
  SharedLibrary library = SharedLibrary::open({"libcuda.so.1"});
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*memory)(size_t*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*error_name)(int, const char**) = nullptr;

  bool find_functions() {
    return library.find("cuInit", init) && library.find("cuDriverGetVersion", version) &&
           library.find("cuDeviceGetCount", count) && library.find("cuDeviceGet", get) &&
           library.find("cuDeviceGetName", device_name) && library.find("cuDeviceTotalMem_v2", memory) &&
           library.find("cuDeviceGetAttribute", attribute) && library.find("cuGetErrorName", error_name);
  }
  /// "" if the driver can be used.
  std::string start() {
    if (!library) return library.problem();
    if (!find_functions()) return library.path() + " lacks functions of the CUDA driver";
    if (int result = init(0); result != 0) {
      const char* name = nullptr;
      error_name(result, &name);
      return fmt::format("the driver does not start: {}", name ? name : std::to_string(result));
    }
    return "";
  }
};

std::vector<CudaDevice> devices_of(const Driver& driver) {
  int count = 0;
  std::vector<CudaDevice> devices;
  if (driver.count(&count) != 0) return devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int handle = 0, major = 0, minor = 0;
    size_t bytes = 0;
    char name[256] = "";
    if (driver.get(&handle, ordinal) != 0 || driver.device_name(name, int(sizeof name), handle) != 0 ||
        driver.memory(&bytes, handle) != 0 || driver.attribute(&major, attribute_major, handle) != 0 ||
        driver.attribute(&minor, attribute_minor, handle) != 0)
      continue;
    devices.push_back({name, fmt::format("sm_{}{}", major, minor), int64_t(bytes)});
  }
  return devices;
}

LibraryStatus driver_status(CudaSupport& support) {
  LibraryStatus status{.name = "driver", .purpose = "running on GPUs"};
  Driver driver;
  status.problem = driver.start();
  if (!status.problem.empty()) return status;
  int version = 0;
  driver.version(&version);
  status.found = true;
  status.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  status.path = driver.library.path();
  status.origin = origin(driver.library);
  support.devices = devices_of(driver);
  return status;
}

LibraryStatus nvrtc_status() {
  const CudaToolkit& toolkit = cuda_toolkit();
  LibraryStatus status{.name = "NVRTC", .purpose = "compiling kernels", .found = toolkit.available};
  if (toolkit.available) {
    status.version = toolkit.version();
    status.path = toolkit.path;
    status.origin = toolkit.origin;
  } else {
    status.problem = toolkit.problem;
  }
  return status;
}

/// A library that tells its version as one number through one function; `parts` are its decimal weights,
/// "major.minor.patch".
template <class Version>
LibraryStatus numbered_status(std::string name, std::string purpose, const std::vector<std::string>& files,
                              const Version& version, const SharedLibrary::Objection& objection = {}) {
  LibraryStatus status{.name = std::move(name), .purpose = std::move(purpose)};
  SharedLibrary library = SharedLibrary::open(files, cuda_library_folders(), objection);
  if (!library) {
    status.problem = library.problem();
    return status;
  }
  status.version = version(library);
  status.found = !status.version.empty();
  status.path = library.path();
  status.origin = origin(library);
  if (!status.found) status.problem = library.path() + " does not tell its version";
  return status;
}

std::string nccl_version(const SharedLibrary& library) {
  int (*version)(int*) = nullptr;
  int number = 0;
  if (!library.find("ncclGetVersion", version) || version(&number) != 0) return "";
  return version_text(size_t(number));
}

std::string cublas_version(const SharedLibrary& library) {
  size_t (*version)() = nullptr;
  if (!library.find("cublasLtGetVersion", version)) return "";
  return version_text(version());
}

size_t cudnn_number(const SharedLibrary& library) {
  size_t (*version)() = nullptr;
  return library.find("cudnnGetVersion", version) ? version() : 0;
}

LibraryStatus cudnn_status() {
  size_t number = 0;
  LibraryStatus status = numbered_status("cuDNN", "attention between bf16 operands, where a cluster file says so",
                                         {"libcudnn.so.9"}, [&](const SharedLibrary& library) {
                                           number = cudnn_number(library);
                                           return number == 0 ? std::string() : version_text(number);
                                         });
  if (status.found && number < least_cudnn_version)
    status.purpose = fmt::format("nothing: attention needs {} or later", version_text(least_cudnn_version));
  return status;
}

}  // namespace

CudaSupport cuda_libraries() {
  CudaSupport support;
  support.libraries.push_back(driver_status(support));
  support.libraries.push_back(nvrtc_status());
  support.libraries.push_back(
      numbered_status("NCCL", "collectives among GPUs", {"libnccl.so.2"}, nccl_version, objection_to_nccl));
  support.libraries.push_back(
      numbered_status("cublasLt", "matrix products on GPUs", cuda_files("libcublasLt"), cublas_version));
  support.libraries.push_back(cudnn_status());
  const char *const any = "clusters with cuda devices", *several = "clusters with two or more cuda devices";
  const std::map<std::string, std::string> needed = {
      {"driver", fmt::format("{} need it to run: install the NVIDIA driver", any)},
      {"NVRTC", fmt::format("{} need it to run: install the CUDA toolkit (or pip install nvidia-cuda-nvrtc), or set "
                            "CUDA_HOME to where it is",
                            any)},
      {"cublasLt", fmt::format("{} need it to run: install cuBLAS (or pip install nvidia-cublas), or set CUDA_HOME to "
                               "where it is",
                               any)},
      {"NCCL", fmt::format("{} need it to run: install NCCL 2.18 or later", several)},
      {"cuDNN",
       fmt::format("devices with attention = \"cudnn\" in the cluster file need it to run: install cuDNN {} or "
                   "later, or leave the entry out, and generated kernels compute attention",
                   version_text(least_cudnn_version))}};
  for (LibraryStatus& library : support.libraries) library.needed = needed.at(library.name);
  return support;
}

const CudaMachine& cuda_machine() {
  static const CudaMachine machine = [] {
    CudaMachine found;
    Driver driver;
    if (!driver.start().empty() || driver.version(&found.driver) != 0) return CudaMachine{};
    for (const CudaDevice& device : devices_of(driver)) {
      const int architecture = std::stoi(device.architecture.substr(3));
      found.oldest_gpu = found.oldest_gpu == 0 ? architecture : std::min(found.oldest_gpu, architecture);
    }
    return found;
  }();
  return machine;
}

std::vector<CudaDevice> cuda_devices() {
  Driver driver;
  return driver.start().empty() ? devices_of(driver) : std::vector<CudaDevice>{};
}

}  // namespace hetsynth
