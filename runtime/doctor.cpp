#include "runtime/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "codegen/interface/abi.h"
#include "dsl/jit/cache_folder.h"
#include "dsl/jit/compiled_code.h"
#include "dsl/jit/disk_cache.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/jit/cuda_libraries.h"
#include "runtime/processes/mpi.h"
#include "runtime/rank/arena.h"
#include "runtime/rank/throttle.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

/// The rest of the first line of /proc/cpuinfo that begins with `key`.
std::string cpu_info(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

Finding examine_processor() {
  const std::string flags = " " + cpu_info("flags") + " ";
  std::vector<std::string> features;
  for (const char* feature : {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile"}) {
    if (flags.find(std::string(" ") + feature + " ") != std::string::npos) features.emplace_back(feature);
  }
  const std::string model = cpu_info("model name");
  return {"processor", Health::good,
          fmt::format("{}, {} cores{}{}", model.empty() ? "unknown model" : model, std::thread::hardware_concurrency(),
                      features.empty() ? "" : ", ", fmt::join(features, " ")),
          ""};
}

Finding examine_memory() {
  return {"memory", Health::good, text_of_bytes(usable_memory_bytes()) + " for this process", ""};
}

Finding examine_compiler() {
  Finding finding{"compiler", Health::good, "", ""};
  try {
    CompileOptions options;
    options.file_name = "doctor.cpp";
    // A new text each time: code from the cache would say nothing about the compiler.
    const int64_t number = static_cast<int64_t>(wall_seconds() * 1e6);
    const double start = wall_seconds();
    const CompileResult result =
        compile_object(fmt::format("extern \"C\" long long doctor() {{ return {}; }}", number), options);
    if (!result.ok) throw InternalError(result.text);
    const NativeModule module = NativeModule::load(result.output, options.file_name);
    if (module.function<long long()>("doctor")() != number)
      throw InternalError("the compiled function gave a wrong result");
    finding.detail =
        fmt::format("{}, compiled and ran a function in {:.0f} ms",
                    compiler_identity().substr(0, compiler_identity().find(';')), 1e3 * (wall_seconds() - start));
  } catch (const std::exception& error) {
    finding = {"compiler", Health::broken, error.what(),
               "install libclang-cpp19 and libllvm19, as the set-up command does"};
  }
  return finding;
}

Finding examine_model_headers(const std::string& folder) {
  std::error_code error;
  if (!folder.empty() && fs::exists(fs::path(folder) / "hetsynth" / "hetsynth.h", error))
    return {"model headers", Health::good, folder, ""};
  return {"model headers", Health::broken, folder.empty() ? "not found" : "no hetsynth/hetsynth.h in " + folder,
          "reinstall hetsynth, or run it from its build folder"};
}

Finding examine_matrix_library() {
  const std::array<float, 4> a{1, 2, 3, 4}, w{5, 6, 7, 8}, expected{19, 22, 43, 50};
  std::array<float, 4> c{};
  try {
    hetsynth_matmul(1, 2, 2, 2, a.data(), 4, 2, 1, w.data(), 4, 2, 1, c.data(), 4, 2, 1, 0);
  } catch (const std::exception& error) {
    return {"oneDNN", Health::broken, error.what(), "install libdnnl2"};
  }
  if (c != expected)
    return {"oneDNN", Health::broken, "a product of 2 x 2 matrices came out wrong",
            "install libdnnl2 of this system again"};
  return {"oneDNN", Health::good, "multiplied matrices", ""};
}

Finding examine_cache() {
  const fs::path folder = cache_directory();
  DiskCache cache("doctor");
  if (cache.store("probe", "works") && cache.load("probe") == "works") {
    cache.remove("probe");
    return {"cache", Health::good, folder.string(), ""};
  }
  std::string problem = folder.string() + " cannot be written";
  (void)open_own_folder(folder / "doctor", &problem);
  return {"cache", Health::absent, problem + ": every start compiles anew",
          "set HETSYNTH_CACHE_DIR to a folder that you may write to and others may not"};
}

Finding examine_solver(const std::string& solver) {
  if (solver.empty()) return {"solver", Health::broken, "not found", "install libz3-4"};
  return {"solver", Health::good, solver, ""};
}

/// Full path of a program the shell would find.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    if (const fs::path found = fs::path(folder) / name; fs::exists(found, error)) return found.string();
  }
  return "";
}

Finding examine_mpi() {
  const std::string launcher = find_program("mpirun");
  const MpiLibrary library = find_mpi();
  const std::string needed_for = "only runs of several processes or hosts need it";
  if (library.version.empty())
    return {"MPI", Health::absent, fmt::format("{}; {}", library.problem, needed_for), "install openmpi-bin"};
  const std::string found = fmt::format("{}, {}", library.version, library.path);
  if (launcher.empty())
    return {"MPI", Health::absent, fmt::format("{}, but no mpirun; {}", found, needed_for), "install openmpi-bin"};
  return {"MPI", Health::good, fmt::format("{}, {}", found, launcher), ""};
}

void examine_cuda(std::vector<Finding>& out) {
  const CudaSupport cuda = cuda_libraries();
  for (const LibraryStatus& library : cuda.libraries) {
    const std::string version = library.version.empty() ? "" : library.version + ", ";
    out.push_back({"CUDA " + library.name, library.found ? Health::good : Health::absent,
                   library.found ? fmt::format("{}{}, {}", version, library.path, library.origin) : library.problem,
                   library.found ? "" : library.needed});
  }
  for (const CudaDevice& device : cuda.devices) {
    out.push_back({"GPU", Health::good,
                   fmt::format("{}, {}, {}", device.name, device.architecture, text_of_bytes(device.memory_bytes)),
                   ""});
  }
}

/// Whether every device of a cluster could be a rank of a process on this machine.
Finding examine_cluster(const Cluster& cluster, const cuda::Backend* backend) {
  Finding finding{"cluster", Health::good, "", ""};
  const auto gpus = std::ranges::count(cluster.devices, DeviceKind::cuda, &Device::kind);
  const std::string name = cluster.file.empty() ? cluster.name : cluster.file;
  finding.detail =
      fmt::format("{}: {} cpu and {} cuda devices can run here", name, cluster.devices.size() - size_t(gpus), gpus);
  try {
    if (gpus > 0) cuda::require_cuda(backend ? *backend : cuda::this_machine(), cluster.devices);
  } catch (const UserError& error) {
    const Diagnostic& told = error.diagnostic();
    finding = {
        "cluster", Health::absent,
        fmt::format("{} cannot run here: {} (needed: {}; found: {})", name, told.message, told.expected, told.found),
        told.mend};
  }
  return finding;
}

}  // namespace

std::string_view name(Health health) {
  switch (health) {
    case Health::good:
      return "good";
    case Health::absent:
      return "absent";
    case Health::broken:
      return "broken";
  }
  return "unknown";
}

std::vector<Finding> examine(const DoctorOptions& options) {
  std::vector<Finding> out{examine_processor(),      examine_memory(),
                           examine_compiler(),       examine_model_headers(options.model_headers),
                           examine_matrix_library(), examine_solver(options.solver),
                           examine_cache(),          examine_mpi()};
  examine_cuda(out);
  if (options.cluster) out.push_back(examine_cluster(*options.cluster, options.backend));
  return out;
}

std::string text(const std::vector<Finding>& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<{}}  {:<6}  {}\n", finding.name, width, name(finding.health), finding.detail);
    if (!finding.mend.empty()) out += fmt::format("{:<{}}  -> {}\n", "", width + 8, finding.mend);
  }
  return out;
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    out.push_back(
        {{"name", finding.name}, {"status", name(finding.health)}, {"detail", finding.detail}, {"mend", finding.mend}});
  }
  return out;
}

bool healthy(const std::vector<Finding>& findings) {
  return std::ranges::none_of(findings, [](const Finding& finding) { return finding.health == Health::broken; });
}

}  // namespace hetsynth
