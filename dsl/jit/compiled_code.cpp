#include "dsl/jit/compiled_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "dsl/base/version.h"
#include "dsl/jit/cache_folder.h"
#include "dsl/jit/disk_cache.h"

namespace hetsynth {
namespace {

std::string key_of(std::string_view source, const CompileOptions& options) {
  std::string settings =
      fmt::format("{} {} {} {}", options.optimization, options.native, options.debug_info, tool_version());
  std::vector<std::string_view> parts = {
      "object", source, options.file_name, settings, compiler_identity(), options.precompiled_header};
  for (const std::string& flag : options.flags) parts.push_back(flag);
  parts.push_back("includes");
  for (const std::string& directory : options.include_directories) parts.push_back(directory);
  for (const MemoryFile& file : options.files) {
    parts.push_back(file.path);
    parts.push_back(file.text);
  }
  return cache_key(parts);
}

/// Writes the text to a folder of the cache directory. Gives the path, or "" if nothing could be written.
std::string keep_source(const char* folder_name, std::string_view source, const std::string& name) {
  const auto path = cache_directory() / folder_name;
  const Descriptor folder = open_own_folder(path);
  if (!folder) return "";
  const Descriptor file(
      ::openat(folder.number(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  while (file && !source.empty()) {
    const ssize_t done = ::write(file.number(), source.data(), source.size());
    if (done <= 0) break;
    source.remove_prefix(size_t(done));
  }
  return file && source.empty() ? (path / name).string() : "";
}

/// The options under which gdb finds code and source.
CompileOptions for_debugger(std::string_view source, CompileOptions options) {
  std::string path = keep_source("sources", source, options.file_name);
  if (!path.empty()) options.file_name = path;
  options.debug_info = true;
  return options;
}

}  // namespace

CompiledCode compile_cached(std::string_view source, const CompileOptions& given) {
  const CompileOptions options = debugger_requested() ? for_debugger(source, given) : given;
  DiskCache cache("objects");
  std::string key = key_of(source, options);
  if (auto object = cache.load(key)) return {std::move(*object), true};
  CompileResult result = compile_object(source, options);
  if (!result.ok) {
    std::string kept = keep_source("failed", source, key + ".cpp");
    throw InternalError(
        fmt::format("generated source does not compile{}\n{}", kept.empty() ? "" : ", kept as " + kept, result.text));
  }
  cache.store(key, result.output);
  return {std::move(result.output), false};
}

NativeModule load_native(std::string_view source, const CompileOptions& options,
                         const std::map<std::string, void*>& symbols) {
  return NativeModule::load(compile_cached(source, options).object, options.file_name, symbols);
}

}  // namespace hetsynth
