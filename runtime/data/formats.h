// The list of data formats: one entry each.
#pragma once
#include <memory>
#include <span>
#include <string>
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

  /// The file's name without folders, or the folder's path.
  std::string name() const;
  /// Path of a file of the folder.
  std::string file(const std::string& name) const;
  bool has(const std::string& name) const;
  /// Whether what was named is a file whose name ends in one of these, or a folder that holds one.
  bool has_file(const std::vector<std::string>& endings) const;
  /// The file that was named, or the one of the folder whose name ends so. Throws UserError if there are several.
  std::string only_file(const std::vector<std::string>& endings) const;
  /// The model asks for nothing but these kinds.
  bool asks_only(std::initializer_list<DataSource::Kind> kinds) const;
};

struct DataFormat {
  const char* name;  ///< what stands before the colon in --data
  const char* what;  ///< "images of MNIST and its relatives (IDX)"
  /// The inputs that it can fill.
  std::vector<DataSource::Kind> kinds;
  /// Whether the files look like it. May err: `open` looks closely.
  bool (*recognise)(const DataPath& path);
  std::unique_ptr<Dataset> (*open)(const DataPath& path);
};

/// In the order in which they are tried.
std::span<const DataFormat> data_formats();

/// See open_token_sequence.
std::unique_ptr<TokenSequence> open_npy_tokens(const std::string& path);
std::unique_ptr<TokenSequence> open_llmc_tokens(const std::string& path);

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
