#include "dsl/jit/compiler.h"

#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/FrontendActions.h>
#include <dlfcn.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "dsl/jit/clang_session.h"

namespace hetsynth {
namespace fs = std::filesystem;

namespace {

bool take_contents(int file, std::string& out) {
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) return false;
  out.resize(size_t(status.st_size));
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = ::pread(file, out.data() + filled, out.size() - filled, off_t(filled));
    if (got <= 0) return false;
    filled += size_t(got);
  }
  return !out.empty();
}

}  // namespace

CompileResult compile_object(std::string_view source, const CompileOptions& options) {
  clang::EmitObjAction action;
  return run_clang_to_object(source, options, action);
}

CompileResult compile_header(std::string_view source, const CompileOptions& options) {
  clang::GeneratePCHAction action;
  // Clang writes headers to files: to one without a name, which nobody can find and no crash can leave behind.
  const int memory = ::memfd_create("hetsynth-header", MFD_CLOEXEC);
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  CompileOptions header = options;
  // Without this, every model instantiates the templates of the standard library anew.
  header.flags.insert(header.flags.end(), {"-xc++-header", "-fpch-instantiate-templates"});
  CompileResult result = run_clang(source, header, action, [&](clang::CompilerInstance& instance) {
    instance.getFrontendOpts().OutputFile = path;
    instance.getFrontendOpts().UseTemporary = false;
  });
  result.ok = result.ok && take_contents(memory, result.output);
  if (memory >= 0) ::close(memory);
  return result;
}

const std::string& compiler_identity() {
  static const std::string identity = [] {
    std::string text = clang::getClangFullVersion() + ";" + llvm::sys::getProcessTriple() + ";" +
                       llvm::sys::getHostCPUName().str() + ";";
    llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
    std::map<std::string, bool> features;  // in order, whatever the hash map's
    for (const auto& feature : found) features[feature.getKey().str()] = feature.getValue();
    for (const auto& [name, present] : features) text += (present ? "+" : "-") + name;
    return text;
  }();
  return identity;
}

const std::string& clang_resource_directory() {
  static const std::string directory = [] {
    std::vector<fs::path> candidates;
    if (const char* given = std::getenv("HETSYNTH_CLANG_RESOURCE_DIR")) candidates.push_back(given);
    candidates.push_back(HETSYNTH_CLANG_RESOURCE_DIR);
    Dl_info library;
    if (::dladdr(reinterpret_cast<void*>(&clang::getClangFullVersion), &library) && library.dli_fname) {
      std::error_code error;
      fs::path file = fs::canonical(library.dli_fname, error);
      if (!error) candidates.push_back(file.parent_path() / "clang" / CLANG_VERSION_MAJOR_STRING);
    }
    candidates.push_back("/usr/lib/llvm-" CLANG_VERSION_MAJOR_STRING "/lib/clang/" CLANG_VERSION_MAJOR_STRING);
    for (const fs::path& candidate : candidates) {
      std::error_code error;
      if (fs::exists(candidate / "include" / "stddef.h", error)) return candidate.string();
    }
    return std::string();
  }();
  return directory;
}

}  // namespace hetsynth
