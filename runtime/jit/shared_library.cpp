#include "runtime/jit/shared_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

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

SharedLibrary SharedLibrary::open(const std::vector<std::string>& names, const std::vector<std::string>& folders,
                                  const Objection& objection) {
  std::vector<std::pair<std::string, std::string>> candidates;  // with their folders
  for (const std::string& name : names) {
    candidates.emplace_back(name, "");
    for (const std::string& folder : folders) {
      std::error_code error;
      if (std::string file = folder + "/" + name; fs::exists(file, error)) candidates.emplace_back(file, folder);
    }
  }
  SharedLibrary none, refused;
  for (const auto& [candidate, folder] : candidates) {
    SharedLibrary library;
    library.handle_ = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library.handle_) {
      const char* reason = ::dlerror();
      if (none.problem_.empty()) none.problem_ = reason ? reason : "cannot be opened";
      continue;
    }
    library.path_ = path_of(library.handle_);
    library.folder_ = folder;
    if (is_stub(library.path_)) {
      ::dlclose(library.handle_);
      if (none.problem_.empty()) none.problem_ = library.path_ + " is the toolkit's stub";
      continue;
    }
    if (!objection || objection(library).empty()) return library;
    if (!refused) refused = library;
  }
  return refused ? refused : none;
}

void* SharedLibrary::symbol(const char* name) const { return handle_ ? ::dlsym(handle_, name) : nullptr; }

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// Where the interpreter looks for packages; empty if it cannot be asked.
std::vector<std::string> package_folders(const std::string& python) {
  std::string quoted = "'";
  for (const char c : python) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  const std::string command = quoted + "' -c 'import sys; print(\"\\n\".join(sys.path))' 2> /dev/null < /dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::string> out;
  if (!pipe) return out;
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) text.append(buffer, n);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

std::vector<std::string> find_pip_folders(const std::string& python) {
  std::vector<std::string> out;
  for (const std::string& packages : package_folders(python)) {
    std::error_code error;
    const size_t first = out.size();
    for (const fs::directory_entry& package : fs::directory_iterator(fs::path(packages) / "nvidia", error))
      if (fs::path lib = package.path() / "lib"; fs::is_directory(lib, error)) out.push_back(lib.string());
    std::sort(out.begin() + ptrdiff_t(first), out.end());
  }
  return out;
}

}  // namespace

std::vector<std::string> pip_library_folders() {
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::string>> known;
  std::string python = variable("HETSYNTH_PYTHON");
  if (python.empty()) python = "python3";
  const std::lock_guard lock(mutex);
  const auto [entry, fresh] = known.try_emplace(python);
  if (fresh) entry->second = find_pip_folders(python);
  return entry->second;
}

std::vector<std::string> cuda_library_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = variable(name); !home.empty())
      for (const char* sub : {"/lib64", "/lib", "/targets/x86_64-linux/lib"}) folders.push_back(home + sub);
  const std::vector<std::string> pip = pip_library_folders();
  folders.insert(folders.end(), pip.begin(), pip.end());
  folders.push_back("/usr/local/cuda/lib64");
  return folders;
}

std::string origin(const SharedLibrary& library) {
  if (!library) return "";
  if (library.folder().empty()) return "found by the loader";
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = variable(name); !home.empty() && library.folder().starts_with(home + "/"))
      return std::string("in $") + name;
  const std::vector<std::string> pip = pip_library_folders();
  if (std::ranges::find(pip, library.folder()) != pip.end()) return "installed by pip";
  return "in " + library.folder();
}

}  // namespace hetsynth
