#include "dsl/frontend/precompiled_header.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <sstream>

#include "dsl/base/version.h"
#include "dsl/jit/disk_cache.h"

namespace hetsynth {
namespace {

// Any header of the standard library costs a model 150 ms or more if it is not in here.
constexpr std::string_view prefix =
    "#include <hetsynth/hetsynth.h>\n#include <algorithm>\n#include <array>\n#include <cmath>\n#include <cstdio>\n"
    "#include <functional>\n#include <map>\n#include <memory>\n#include <numeric>\n#include <optional>\n#include "
    "<stdexcept>\n"
    "#include <string>\n#include <tuple>\n#include <utility>\n#include <vector>\n";

// Neither exists on disk.
constexpr const char* source_name = "/hetsynth-precompiled/model.h";
constexpr const char* binary_name = "/hetsynth-precompiled/model.pch";

const DiskCache& cache() {
  static const DiskCache instance("headers", int64_t(256) << 20);
  return instance;
}

std::string flags_key(const CompileOptions& options) {
  std::string settings = fmt::format("{} {} {}", options.optimization, options.native, options.debug_info);
  std::string version = tool_version();
  std::vector<std::string_view> parts = {"header", prefix, settings, compiler_identity(), clang_resource_directory(),
                                         version};
  for (const std::string& flag : options.flags) parts.push_back(flag);
  parts.push_back("includes");
  for (const std::string& directory : options.include_directories) parts.push_back(directory);
  return cache_key(parts);
}

/// "size time path": what tells whether a header is still the one that was compiled. nullopt if it is gone.
std::optional<std::string> stamp(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return fmt::format("{} {}.{:09} {}\n", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, path);
}

/// Files of a manifest all of which are as it says; nullopt if one is not.
std::optional<std::vector<std::string>> unchanged_files(const std::string& manifest) {
  std::vector<std::string> files;
  std::istringstream lines(manifest);
  for (std::string line; std::getline(lines, line);) {
    size_t space = line.find(' ', line.find(' ') + 1);
    if (space == std::string::npos) return std::nullopt;
    files.push_back(line.substr(space + 1));
    if (stamp(files.back()) != line + "\n") return std::nullopt;
  }
  return files;
}

[[noreturn]] void fail(const CompileResult& result) {
  Diagnostic diagnostic{.message = "hetsynth's own header does not compile", .detail = result.text};
  while (!diagnostic.detail.empty() && diagnostic.detail.back() == '\n') diagnostic.detail.pop_back();
  bool missing = false;
  for (const CompileMessage& message : result.messages)
    missing |= message.text.find("file not found") != std::string::npos;
  if (clang_resource_directory().empty())
    diagnostic.mend =
        "install libclang-common-19-dev, or set HETSYNTH_CLANG_RESOURCE_DIR to the folder that holds include/stddef.h";
  else if (missing)
    diagnostic.mend =
        "install libstdc++-12-dev and libc6-dev; HETSYNTH_INCLUDE_DIRS names the folders with hetsynth's headers";
  throw UserError(std::move(diagnostic), ExitCode::failure);
}

PrecompiledHeader make_header(const CompileOptions& options, const std::string& flags) {
  CompileOptions header_options = options;
  header_options.file_name = source_name;
  const std::time_t start = std::time(nullptr);
  CompileResult result = compile_header(prefix, header_options);
  if (!result.ok) fail(result);
  PrecompiledHeader header{.contents = std::move(result.dependencies), .made = true};
  header.bytes = std::move(result.output);
  std::string manifest;
  bool settled = true;  // a header edited while it was compiled would look unchanged afterwards
  for (const std::string& file : header.contents) {
    struct stat status;
    settled = settled && ::stat(file.c_str(), &status) == 0 && status.st_mtim.tv_sec < start;
    manifest += stamp(file).value_or("");
  }
  header.identity = cache_key({flags, manifest});
  if (settled && cache().store(header.identity, header.bytes)) cache().store(flags, manifest);
  return header;
}

}  // namespace

PrecompiledHeader precompiled_header(const CompileOptions& options) {
  std::string flags = flags_key(options);
  if (auto manifest = cache().load(flags))
    if (auto files = unchanged_files(*manifest))
      return {.identity = cache_key({flags, *manifest}), .contents = std::move(*files)};
  return make_header(options, flags);
}

void use_header(PrecompiledHeader& header, CompileOptions& options) {
  if (header.bytes.empty()) {
    if (auto bytes = cache().load(header.identity))
      header.bytes = std::move(*bytes);
    else
      header = make_header(options, flags_key(options));
  }
  options.precompiled_header = binary_name;
  options.files.push_back({binary_name, header.bytes});
  options.files.push_back({source_name, prefix});
}

}  // namespace hetsynth
