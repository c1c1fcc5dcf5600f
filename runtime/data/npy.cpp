// Arrays of NumPy: a folder with one file per input, samples in dimension 0; or one file of tokens, or of the only
// input.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/npy_header.h"
#include "runtime/data/array_store.h"
#include "runtime/data/formats.h"
#include "runtime/data/token_windows.h"

namespace hetsynth {
namespace {

using Kind = DataSource::Kind;

constexpr std::string_view npy_ending = ".npy";

StoredArray open_npy_file(const std::string& path) {
  auto file = std::make_shared<DataFile>(path);
  NpyHeader header = read_npy_header(*file);
  return {std::move(file), header.type, std::move(header.shape), header.data_offset};
}

std::unique_ptr<Dataset> open_npy(const DataPath& path) {
  ArrayStore store{path.path, "npy " + path.path, "folder", std::string(npy_ending), {}};
  for (const std::string& name : path.files) {
    if (!name.ends_with(npy_ending)) continue;
    store.arrays[name.substr(0, name.size() - npy_ending.size())] = [file = path.file(name)] {
      return open_npy_file(file);
    };
  }
  if (path.folder) return open_arrays(store, path.inputs);
  if (path.asks_only({Kind::tokens, Kind::token_targets}))
    return std::make_unique<TokenWindows>(open_npy_tokens(path.path), path.inputs, path.path);
  const std::string& name = data_name(*path.inputs.front());
  const bool one = std::ranges::all_of(path.inputs, [&](const Node* input) { return data_name(*input) == name; });
  if (!one || !path.asks_only({Kind::named})) {
    throw data_error(path.path, "one array does not hold all inputs of the model", "a folder with a file per input",
                     "a file", "see docs/data.md for the names");
  }
  store.arrays[name] = [&] { return open_npy_file(path.path); };
  return open_arrays(store, path.inputs);
}

bool looks_like_npy(const DataPath& path) {
  return path.has_file({std::string(npy_ending)}) || begins_like_npy(path.head);
}

}  // namespace

std::unique_ptr<TokenSequence> open_npy_tokens(const std::string& path) { return token_sequence(open_npy_file(path)); }

DataFormat npy_format() { return {"npy", "arrays of NumPy", array_kinds(), looks_like_npy, open_npy}; }

}  // namespace hetsynth
