#include "dsl/jit/compiler.h"

#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/FrontendActions.h>
#include <dlfcn.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "dsl/jit/clang_session.h"

namespace hetsynth {
namespace fs = std::filesystem;

CompileResult compile_object(std::string_view source, const CompileOptions& options) {
  clang::EmitObjAction action;
  return run_clang_to_object(source, options, action);
}

CompileResult compile_header(std::string_view source, const CompileOptions& options, const std::string& path) {
  clang::GeneratePCHAction action;
  CompileOptions header = options;
  // Without this, every model instantiates the templates of the standard library anew.
  header.flags.insert(header.flags.end(), {"-xc++-header", "-fpch-instantiate-templates"});
  return run_clang(source, header, action,
                   [&](clang::CompilerInstance& instance) { instance.getFrontendOpts().OutputFile = path; });
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
