// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes of header length, a JSON header,
// raw little-endian tensors.
#pragma once
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/host_tensor.h"

namespace hetsynth {

struct TensorEntry {
  std::string name;
  TensorType type;
};

/// Writes one file: header first, then each tensor as `tensor(name)` gives it, one at a time. Into a temporary file
/// beside `path`, renamed at the end: whatever stood there before stays whole until then. Throws UserError if the disk
/// refuses.
void write_safetensors(const std::string& path, const std::vector<TensorEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<HostTensor(const std::string& name)>& tensor);

/// A file opened for reading; its header has been checked against its size.
class SafetensorsFile {
 public:
  /// Throws UserError naming the file if it is missing, cut short, or no safetensors file of f32 and i32 tensors.
  explicit SafetensorsFile(const std::string& path);
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::map<std::string, TensorType>& types() const { return types_; }
  /// Throws UserError if the file lacks the tensor.
  HostTensor read(const std::string& name);

 private:
  std::string path_;
  std::ifstream file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, int64_t> offsets_;  ///< from the start of the file
};

}  // namespace hetsynth
