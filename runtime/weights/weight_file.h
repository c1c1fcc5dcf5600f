// Tensors of other programs: a safetensors file, or several of them with an index, as Hugging Face writes them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/token_files/token_origin.h"
#include "runtime/training/safetensors.h"

namespace hetsynth {

class WeightFile {
 public:
  /// `path`: a safetensors file, an index ("model.safetensors.index.json") or a folder with either. Throws UserError
  /// naming the file for what is none of these.
  explicit WeightFile(const std::string& path);

  const std::map<std::string, TensorType>& types() const { return types_; }
  /// "model.safetensors, 148 tensors".
  std::string description() const;
  /// Which tokenizer made the tokens that it was trained on, as far as it is a checkpoint of hetsynth that says so.
  TokenOrigin tokenizer() const;
  const std::string& path() const { return path_; }
  /// A hash of the headers.
  std::string fingerprint() const;
  HostTensor read(const std::string& name);

 private:
  void add(const std::string& path);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, size_t> file_of_;  ///< by tensor
};

}  // namespace hetsynth
