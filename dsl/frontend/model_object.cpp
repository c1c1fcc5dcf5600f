#include "dsl/frontend/model_object.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "dsl/base/file.h"
#include "dsl/base/hash.h"
#include "dsl/frontend/name_tensors.h"
#include "dsl/frontend/precompiled_header.h"
#include "dsl/jit/clang_session.h"
#include "dsl/jit/disk_cache.h"
#include "dsl/jit/native_module.h"

namespace hetsynth {
namespace {

constexpr int64_t longest_file = int64_t(64) << 20;

/// A model runs once, for milliseconds: its code is not optimised and not for this CPU in particular.
CompileOptions model_options(const std::string& path, const LoadOptions& options) {
  CompileOptions compile{.file_name = path,
                         .optimization = 0,
                         .native = false,
                         .debug_info = debugger_requested(),
                         .color = options.color};
  for (const std::string& directory : dsl_include_directories()) {
    compile.flags.push_back("-isystem");
    compile.flags.push_back(directory);
  }
  return compile;
}

/// Content hash of a file, "" if it cannot be read.
std::string file_hash(const std::string& path) {
  try {
    return wide_content_hash(read_file(path, "header", longest_file));
  } catch (const UserError&) {
    return "";
  }
}

/// An entry of the cache: the files the model includes besides the precompiled header, each with its hash; the
/// warnings; the code.
std::string pack(const ModelObject& object, const std::vector<std::string>& included) {
  nlohmann::json head = {{"warnings", object.warnings}, {"included", nlohmann::json::array()}};
  for (const std::string& file : included) head["included"].push_back({file, file_hash(file)});
  return head.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n" + object.code;
}

/// nullopt if a file the model includes has changed since.
std::optional<ModelObject> unpack(const std::string& entry) {
  size_t end = entry.find('\n');
  nlohmann::json head = nlohmann::json::parse(entry.substr(0, end), nullptr, false);
  if (end == std::string::npos || head.is_discarded()) return std::nullopt;
  for (const auto& file : head["included"])
    if (file_hash(file[0].get<std::string>()) != file[1].get<std::string>()) return std::nullopt;
  return ModelObject{entry.substr(end + 1), head["warnings"].get<std::string>()};
}

std::string object_key(const std::string& source, const CompileOptions& compile, const LoadOptions& options,
                       const PrecompiledHeader& header) {
  struct stat program;  // another build may rewrite models in another way
  if (::stat("/proc/self/exe", &program) != 0) program = {};
  std::string settings = fmt::format("{} {} {} {}.{}", compile.debug_info, options.color, program.st_size,
                                     program.st_mtim.tv_sec, program.st_mtim.tv_nsec);
  return cache_key({"model", source, compile.file_name, settings, header.identity});
}

/// Files outside of the precompiled header.
std::vector<std::string> own_files(std::vector<std::string> dependencies, std::vector<std::string> header) {
  std::sort(dependencies.begin(), dependencies.end());
  std::sort(header.begin(), header.end());
  std::vector<std::string> own;
  std::set_difference(dependencies.begin(), dependencies.end(), header.begin(), header.end(), std::back_inserter(own));
  std::erase_if(own, [](const std::string& file) { return file.starts_with("/hetsynth-precompiled/"); });
  return own;
}

[[noreturn]] void fail(const std::string& path, const CompileResult& result) {
  std::string text = result.text;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  throw UserError({.where = {path}, .message = "the model does not compile", .detail = text});
}

}  // namespace

ModelObject compile_model(const std::string& path, const LoadOptions& options, LoadTimes& times) {
  using Clock = std::chrono::steady_clock;
  auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::string source = read_file(path, "model file", longest_file);
  CompileOptions compile = model_options(path, options);
  auto start = Clock::now();
  PrecompiledHeader header = precompiled_header(compile);
  times.header_seconds = seconds_since(start);
  DiskCache cache("models");
  std::string key = object_key(source, compile, options, header);
  if (options.use_cache)
    if (auto entry = cache.load(key))
      if (auto object = unpack(*entry)) {
        times.object_from_cache = true;
        return std::move(*object);
      }
  start = Clock::now();
  use_header(header, compile);
  times.header_made = header.made;
  times.header_seconds += seconds_since(start);
  start = Clock::now();
  auto action = naming_action();
  CompileResult result = run_clang_to_object(source, compile, *action);
  times.compile_seconds = seconds_since(start);
  if (!result.ok) fail(path, result);
  ModelObject object{std::move(result.output), std::move(result.text)};
  if (options.use_cache) cache.store(key, pack(object, own_files(result.dependencies, header.contents)));
  return object;
}

}  // namespace hetsynth
