// Arrays of NumPy: a folder with one file per input, samples in dimension 0; or one file of tokens, or of the only
// input.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "dsl/base/npy_header.h"
#include "runtime/data/array_store.h"
#include "runtime/data/formats.h"
#include "runtime/data/token_windows.h"
#include "runtime/data_files/part_names.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr std::string_view npy_ending = ".npy";

StoredArray open_npy_file(const std::string& path) {
  auto file = std::make_shared<DataFile>(path);
  NpyHeader header = read_npy_header(*file);
  return {std::move(file), header.type, std::move(header.shape), header.data_offset, origin_in(header.comment)};
}

/// The parts of arrays that lie in numbered files, by the array's name. A file that an input is named after is no part.
std::map<std::string, std::vector<std::string>> numbered_arrays(const DataPath& folder) {
  std::map<std::string, std::vector<std::string>> out;
  for (const std::string& file : folder.files) {
    if (!file.ends_with(npy_ending)) continue;
    const std::string stem = file.substr(0, file.size() - npy_ending.size()), whole = name_of_whole(stem);
    const bool named = std::ranges::any_of(folder.inputs, [&](const Node* input) { return data_name(*input) == stem; });
    if (!whole.empty() && !named) out[whole].push_back(file);
  }
  // One file with a number may be anything, and so may files that are numbered in several ways.
  std::erase_if(out, [](const auto& array) {
    const std::vector<std::string>& files = array.second;
    const auto alike = [&](const std::string& file) { return series_of(file) == series_of(files.front()); };
    return files.size() < 2 || !std::ranges::all_of(files, alike);
  });
  return out;
}

OpenedData open_npy(const DataPath& path) {
  ArrayStore store{path.path, "npy " + path.path, "folder", std::string(npy_ending), {}};
  for (const auto& [name, files] : numbered_arrays(path)) {
    std::vector<std::string> paths;
    for (const std::string& file : files) paths.push_back(path.file(file));
    store.arrays[name].push_back([paths, folder = path.path] {
      check_parts_are_whole(paths, folder);
      return open_npy_file(paths.front());
    });
    for (size_t i = 1; i < paths.size(); ++i)
      store.arrays[name].push_back([file = paths[i]] { return open_npy_file(file); });
  }
  for (const std::string& name : path.files) {
    if (!name.ends_with(npy_ending)) continue;
    store.arrays[name.substr(0, name.size() - npy_ending.size())] = {
        [file = path.file(name)] { return open_npy_file(file); }};
  }
  if (path.folder) return open_arrays(store, path);
  if (path.asks_only({Kind::tokens, Kind::token_targets})) return open_npy_tokens(path.path);
  const std::string& name = data_name(*path.inputs.front());
  const bool one = std::ranges::all_of(path.inputs, [&](const Node* input) { return data_name(*input) == name; });
  if (!one || !path.asks_only({Kind::named})) {
    throw data_error(path.path, "one array does not hold all inputs of the model", "a folder with a file per input",
                     "a file", "see docs/data.md for the names");
  }
  store.arrays[name] = {[&] { return open_npy_file(path.path); }};
  return open_arrays(store, path);
}

bool looks_like_npy(const DataPath& path) {
  return path.has_file({std::string(npy_ending)}) || begins_like_npy(path.head);
}

}  // namespace

std::unique_ptr<TokenSequence> open_npy_tokens(const std::string& path) { return token_sequence(open_npy_file(path)); }

DataFormat npy_format() { return {"npy", "arrays of NumPy", array_kinds(), looks_like_npy, open_npy}; }

}  // namespace hetsynth
