// Arrays by name, wherever they lie: a folder of npy files, an npz archive, a safetensors file.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/array_dataset.h"
#include "runtime/data/formats.h"

namespace hetsynth {

struct ArrayStore {
  std::string path;         ///< what the user named
  std::string description;  ///< "npz FILE"
  std::string place;        ///< "folder", "archive": what it is that lacks an array
  std::string suffix;       ///< of an array's name, for messages: ".npy"
  /// Opened, and found to be whole, when an input needs it: the parts of each array, of which most have one.
  std::map<std::string, std::vector<std::function<StoredArray()>>> arrays;
};

/// The kinds of inputs that arrays can fill.
std::vector<DataSource::Kind> array_kinds();

/// Samples of the arrays that the inputs are named after (docs/data.md), dimension 0 counting them. Throws UserError if
/// an array is missing, has another shape or type than its input or its own first part, or another number of samples
/// than others.
OpenedData open_arrays(const ArrayStore& store, const DataPath& path);

/// A one-dimensional array of whole numbers as a sequence of tokens.
std::unique_ptr<TokenSequence> token_sequence(StoredArray array);

}  // namespace hetsynth
