#include "runtime/jit/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "dsl/base/version.h"
#include "dsl/jit/disk_cache.h"
#include "dsl/jit/ptx_compiler.h"
#include "runtime/jit/cuda_generation.h"
#include "runtime/jit/shared_library.h"

namespace hetsynth {
namespace fs = std::filesystem;
namespace {

// The few declarations of nvrtc.h that are used; its ABI has been stable since CUDA 11.1.
using Program = struct ProgramTag*;
using Result = int;
constexpr Result success = 0;

struct Nvrtc {
  SharedLibrary library;
  CudaToolkit toolkit;
  Result (*version)(int*, int*) = nullptr;
  Result (*architecture_count)(int*) = nullptr;
  Result (*architectures)(int*) = nullptr;
  Result (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                   const char* const*) = nullptr;
  Result (*compile)(Program, int count, const char* const* options) = nullptr;
  Result (*cubin_size)(Program, size_t*) = nullptr;
  Result (*cubin)(Program, char*) = nullptr;
  Result (*ptx_size)(Program, size_t*) = nullptr;
  Result (*ptx)(Program, char*) = nullptr;
  Result (*log_size)(Program, size_t*) = nullptr;
  Result (*log)(Program, char*) = nullptr;
  Result (*destroy)(Program*) = nullptr;
  const char* (*error_text)(Result) = nullptr;

  Nvrtc() {
    library = SharedLibrary::open(cuda_files("libnvrtc"), cuda_library_folders());
    toolkit.problem = library ? look() : "NVRTC is not installed: " + library.problem();
    toolkit.available = toolkit.problem.empty();
  }

 private:
  bool find_functions() {
    return library.find("nvrtcVersion", version) && library.find("nvrtcGetNumSupportedArchs", architecture_count) &&
           library.find("nvrtcGetSupportedArchs", architectures) && library.find("nvrtcCreateProgram", create) &&
           library.find("nvrtcCompileProgram", compile) && library.find("nvrtcGetCUBINSize", cubin_size) &&
           library.find("nvrtcGetCUBIN", cubin) && library.find("nvrtcGetPTXSize", ptx_size) &&
           library.find("nvrtcGetPTX", ptx) && library.find("nvrtcGetProgramLogSize", log_size) &&
           library.find("nvrtcGetProgramLog", log) && library.find("nvrtcDestroyProgram", destroy) &&
           library.find("nvrtcGetErrorString", error_text);
  }

  /// Fills the toolkit's description. Gives what is wrong with the library, or "".
  std::string look() {
    toolkit.path = library.path();
    toolkit.origin = hetsynth::origin(library);
    if (!find_functions()) return library.path() + " lacks functions of NVRTC 12";
    int count = 0;
    if (version(&toolkit.major, &toolkit.minor) != success || architecture_count(&count) != success || count <= 0)
      return library.path() + " does not answer";
    std::vector<int> numbers(size_t(count), 0);
    if (architectures(numbers.data()) != success) return library.path() + " does not answer";
    std::sort(numbers.begin(), numbers.end());
    for (int number : numbers) toolkit.architectures.push_back(fmt::format("sm_{}", number));
    for (fs::path folder = fs::path(toolkit.path).parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      std::error_code error;
      if (!fs::exists(folder / "include" / "cuda_bf16.h", error)) continue;
      toolkit.include_directory = (folder / "include").string();
      if (const fs::path library = folder / "nvvm/libdevice/libdevice.10.bc"; fs::exists(library, error))
        toolkit.device_library = library.string();
      break;
    }
    if (!toolkit.device_library.empty())
      for (const std::string& architecture : ptx_architectures())
        if (std::ranges::find(toolkit.architectures, architecture) == toolkit.architectures.end())
          toolkit.through_clang.push_back(architecture);
    return "";
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc* instance = new Nvrtc;  // never closed: other static objects may still compile
  return *instance;
}

struct ProgramOwner {
  Program program = nullptr;
  ~ProgramOwner() {
    if (program) nvrtc().destroy(&program);
  }
};

/// Reads a buffer whose length a second function tells.
std::string read_buffer(Program program, Result (*size)(Program, size_t*), Result (*read)(Program, char*)) {
  size_t bytes = 0;
  if (size(program, &bytes) != success || bytes == 0) return "";
  std::string buffer(bytes, '\0');
  return read(program, buffer.data()) == success ? buffer : "";
}

std::vector<std::string> arguments_for(const std::string& architecture, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"--gpu-architecture=" + architecture};
  auto sets_standard = [](const std::string& option) {
    return option.starts_with("--std=") || option.starts_with("-std=");
  };
  if (std::none_of(options.begin(), options.end(), sets_standard)) arguments.push_back("--std=c++17");
  if (!nvrtc().toolkit.include_directory.empty())
    arguments.push_back("--include-path=" + nvrtc().toolkit.include_directory);
  arguments.insert(arguments.end(), options.begin(), options.end());
  return arguments;
}

CudaCode compile_now(std::string_view source, const std::string& name, const std::vector<std::string>& arguments) {
  const Nvrtc& api = nvrtc();
  CudaCode code;
  ProgramOwner owner;
  std::string text(source);
  Result result = api.create(&owner.program, text.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (result != success) {
    code.log = fmt::format("NVRTC cannot start: {}", api.error_text(result));
    return code;
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  result = api.compile(owner.program, int(pointers.size()), pointers.data());
  code.log = read_buffer(owner.program, api.log_size, api.log);
  while (!code.log.empty() && (code.log.back() == '\0' || code.log.back() == '\n')) code.log.pop_back();
  const bool to_ptx = arguments.front().find("=compute_") != std::string::npos;
  if (result == success)
    code.cubin = to_ptx ? read_buffer(owner.program, api.ptx_size, api.ptx)
                        : read_buffer(owner.program, api.cubin_size, api.cubin);
  code.status = code.cubin.empty() ? CudaCompileStatus::rejected : CudaCompileStatus::compiled;
  if (!code.ok() && code.log.empty()) code.log = fmt::format("{}: {}", name, api.error_text(result));
  return code;
}

CudaCode compile_through_clang(std::string_view source, const std::string& name, const std::string& architecture) {
  CompileResult result = compile_ptx(source, name, architecture, cuda_toolkit().device_library);
  CudaCode code;
  code.status = result.ok ? CudaCompileStatus::compiled : CudaCompileStatus::rejected;
  code.cubin = std::move(result.output);
  code.log = std::move(result.text);
  return code;
}

/// An entry of the cache: length of the log, the log, the machine code.
std::string pack(const CudaCode& code) { return fmt::format("{}\n{}", code.log.size(), code.log) + code.cubin; }

bool unpack(const std::string& entry, CudaCode& code) {
  size_t end = entry.find('\n');
  size_t length = end == std::string::npos ? std::string::npos : std::strtoull(entry.c_str(), nullptr, 10);
  if (end == std::string::npos || length > entry.size() - end - 1) return false;
  code.log = entry.substr(end + 1, length);
  code.cubin = entry.substr(end + 1 + length);
  code.status = CudaCompileStatus::compiled;
  code.from_cache = true;
  return !code.cubin.empty();
}

}  // namespace

const CudaToolkit& cuda_toolkit() { return nvrtc().toolkit; }

CudaCode compile_cuda(std::string_view source, const std::string& name, const std::string& architecture,
                      const std::vector<std::string>& options) {
  const CudaToolkit& toolkit = cuda_toolkit();
  CudaCode code;
  if (!toolkit.available) {
    code.log = toolkit.problem;
    return code;
  }
  // "compute_90" is the PTX of sm_90; "sm_90a" and "sm_100f" are variants of architectures that the list names without
  // the letter.
  std::string listed = architecture;
  if (listed.starts_with("compute_")) listed.replace(0, 8, "sm_");
  while (!listed.empty() && (listed.back() == 'a' || listed.back() == 'f')) listed.pop_back();
  const bool through_clang = std::ranges::find(toolkit.through_clang, listed) != toolkit.through_clang.end();
  if (!through_clang && std::ranges::find(toolkit.architectures, listed) == toolkit.architectures.end()) {
    code.log = fmt::format("NVRTC {} does not compile for {}; it knows {}", toolkit.version(), architecture,
                           fmt::join(toolkit.architectures, ", "));
    return code;
  }
  std::vector<std::string> arguments = arguments_for(architecture, options);
  std::string version = tool_version();
  std::string toolkit_version = toolkit.version() + " " + fs::path(toolkit.path).filename().string();
  std::vector<std::string_view> parts = {"cubin", source, name, toolkit_version, version};
  if (through_clang) parts.push_back(compiler_identity());
  for (const std::string& argument : arguments) parts.push_back(argument);
  DiskCache cache("cubins");
  std::string key = cache_key(parts);
  if (auto entry = cache.load(key); entry && unpack(*entry, code)) return code;
  code = through_clang ? compile_through_clang(source, name, listed) : compile_now(source, name, arguments);
  if (code.ok()) cache.store(key, pack(code));
  return code;
}

}  // namespace hetsynth
