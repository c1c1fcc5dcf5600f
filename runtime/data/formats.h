// The list of data formats: one entry each.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/token_windows.h"

namespace hetsynth {

/// What the user named, as far as it is known before a format is chosen.
struct DataPath {
  std::string path;
  bool folder = false;
  std::vector<std::string> files;   ///< of a folder: names of the regular files in it, sorted
  std::vector<unsigned char> head;  ///< of a file: its first 64 bytes
  std::vector<const Node*> inputs;  ///< what the model asks for
  int part = 0, parts = 1;          ///< which part of a data set it is; one of several may be empty
  /// Bytes that compressed data may still take in memory, of all parts together.
  std::shared_ptr<int64_t> unpacked_left;

  bool may_be_empty() const { return parts > 1; }
  /// How large a file of text is kept in memory.
  int64_t resident_bytes() const { return (int64_t{256} << 20) / parts; }

  /// The file's name without folders, or the folder's path.
  std::string name() const;
  /// Path of a file of the folder.
  std::string file(const std::string& name) const;
  /// Whether what was named is a file whose name ends in one of these, or a folder that holds one.
  bool has_file(const std::vector<std::string>& endings) const;
  /// Paths of those files of the folder that are the parts of one set: whose name ends so, and is the same but for
  /// numbers. Throws UserError if there are none or others.
  std::vector<std::string> series(const std::vector<std::string>& endings) const;
  /// The model asks for nothing but these kinds.
  bool asks_only(std::initializer_list<DataSource::Kind> kinds) const;
};

/// Samples, or tokens of which windows are the samples.
using OpenedData = std::variant<std::unique_ptr<Dataset>, std::unique_ptr<TokenSequence>>;

struct DataFormat {
  const char* name;  ///< what stands before the colon in --data
  const char* what;  ///< "images of MNIST and its relatives (IDX)"
  /// The inputs that it can fill.
  std::vector<DataSource::Kind> kinds;
  /// Whether the files look like it. May err: `open` looks closely.
  bool (*recognise)(const DataPath& path);
  OpenedData (*open)(const DataPath& path);
  /// Files of a folder that are opened one by one, as parts of one set; null: the folder is opened itself.
  std::vector<std::string> (*parts)(const DataPath& folder) = nullptr;
};

/// In the order in which they are tried.
std::span<const DataFormat> data_formats();

/// Returns the same data set, which parses every sample once and then keeps it as numbers (row_cache.cpp): to parse
/// them takes fifty times as long as to copy them, and later epochs need them again. What `rows` reads may not depend
/// on the epoch. A data set that takes more than `path.resident_bytes()` as numbers is given back as it is.
std::unique_ptr<Dataset> with_row_cache(std::unique_ptr<Dataset> rows, const DataPath& path);

/// See open_token_sequence.
std::unique_ptr<TokenSequence> open_npy_tokens(const std::string& path);
std::unique_ptr<TokenSequence> open_llmc_tokens(const std::string& path, bool may_be_empty = false);

DataFormat npy_format();
DataFormat npz_format();
DataFormat safetensors_format();
DataFormat llmc_format();
DataFormat idx_format();
DataFormat cifar10_format();
DataFormat cifar100_format();
DataFormat csv_format();
DataFormat jsonl_format();
DataFormat criteo_format();
DataFormat text_format();

}  // namespace hetsynth
