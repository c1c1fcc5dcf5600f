#include "runtime/weights/weight_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "dsl/base/counted.h"
#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/hash.h"
#include "runtime/training/checkpoint.h"

namespace hetsynth {
namespace {

namespace fs = std::filesystem;

constexpr int64_t largest_index_bytes = int64_t{64} << 20;
constexpr const char* single_file = "model.safetensors";
constexpr const char* index_file = "model.safetensors.index.json";

/// The file or index that a path means.
std::string found_in(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {single_file, index_file})
    if (fs::is_regular_file(fs::path(path) / name, error)) return (fs::path(path) / name).string();
  throw UserError({.where = {path},
                   .tag = "weights",
                   .message = "the folder has no weights",
                   .expected = fmt::format("{} or {}", single_file, index_file),
                   .mend = "name the file itself; weights in other formats can be saved as safetensors"});
}

/// Names of the files that an index tells of, each once.
std::set<std::string> files_of_index(const std::string& path) {
  const auto refuse = [&](const std::string& found) {
    throw UserError({.where = {path},
                     .tag = "weights",
                     .message = "this is no index of safetensors files",
                     .expected = "a JSON object whose weight_map names a file for each tensor",
                     .found = found});
  };
  const nlohmann::json parsed = nlohmann::json::parse(read_file(path, "index of weights", largest_index_bytes), nullptr,
                                                      /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("weight_map") || !parsed.at("weight_map").is_object())
    refuse("no weight_map");
  std::set<std::string> out;
  for (const auto& [tensor, file] : parsed.at("weight_map").items()) {
    if (!file.is_string()) refuse(fmt::format("no name for {}", tensor));
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos) refuse(fmt::format("the file name \"{}\"", name));
    out.insert(name);
  }
  if (out.empty()) refuse("no tensor");
  return out;
}

}  // namespace

WeightFile::WeightFile(const std::string& path) : path_(found_in(path)) {
  if (!path_.ends_with(".json")) {
    add(path_);
    return;
  }
  for (const std::string& name : files_of_index(path_)) add((fs::path(path_).parent_path() / name).string());
}

void WeightFile::add(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path, SafetensorsTypes::foreign));
  for (const auto& [name, type] : files_.back()->types()) {
    if (!types_.emplace(name, type).second)
      throw UserError({.where = {path}, .tag = "weights", .message = "two files have a tensor " + name});
    file_of_[name] = files_.size() - 1;
  }
}

TokenOrigin WeightFile::tokenizer() const {
  for (const auto& file : files_)
    if (const TokenOrigin origin = tokenizer_in(file->metadata()); origin.known()) return origin;
  return {};
}

std::string WeightFile::description() const {
  return fmt::format("{}, {}", fs::path(path_).filename().string(), counted(int64_t(types_.size()), "tensor"));
}

std::string WeightFile::fingerprint() const {
  std::string all;
  for (const auto& file : files_) all += file->header_hash() + " ";
  return content_hash(all);
}

HostTensor WeightFile::read(const std::string& name) { return files_[file_of_.at(name)]->read(name); }

}  // namespace hetsynth
