#include "runtime/jit/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>

namespace hetsynth {
namespace fs = std::filesystem;
namespace {

/// File of an open library, links resolved.
std::string path_of(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return "";
  std::error_code error;
  fs::path file = fs::canonical(map->l_name, error);
  return error ? std::string(map->l_name) : file.string();
}

bool is_stub(const std::string& path) {
  for (const fs::path& part : fs::path(path))
    if (part == "stubs") return true;
  return false;
}

}  // namespace

SharedLibrary SharedLibrary::open(const std::vector<std::string>& names, const std::vector<std::string>& folders) {
  std::vector<std::string> candidates = names;
  for (const std::string& folder : folders)
    for (const std::string& name : names) {
      std::error_code error;
      if (std::string file = folder + "/" + name; fs::exists(file, error)) candidates.push_back(file);
    }
  SharedLibrary library;
  for (const std::string& candidate : candidates) {
    void* handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* reason = ::dlerror();
      if (library.problem_.empty()) library.problem_ = reason ? reason : "cannot be opened";
      continue;
    }
    std::string path = path_of(handle);
    if (is_stub(path)) {
      ::dlclose(handle);
      if (library.problem_.empty()) library.problem_ = path + " is the toolkit's stub";
      continue;
    }
    library.handle_ = handle;
    library.path_ = std::move(path);
    library.problem_.clear();
    break;
  }
  return library;
}

void* SharedLibrary::symbol(const char* name) const { return handle_ ? ::dlsym(handle_, name) : nullptr; }

std::vector<std::string> cuda_library_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home && *home)
      for (const char* sub : {"/lib64", "/lib", "/targets/x86_64-linux/lib"})
        folders.push_back(home + std::string(sub));
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

}  // namespace hetsynth
