// The safetensors file format (https://github.com/huggingface/safetensors): 8 bytes of header length, a JSON header,
// raw little-endian tensors. With a checksum of every tensor, and of the header itself, in the header's metadata.
#pragma once
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dsl/base/output_file.h"
#include "dsl/base/safetensors_header.h"
#include "runtime/rank/host_tensor.h"

namespace hetsynth {

struct TensorEntry {
  std::string name;
  TensorType type;
};

/// Writes one file: each tensor as `tensor(name)` gives it, one at a time, and the header with their checksums. The
/// file is read back and held against its checksums before it takes the place of what stood at `path`, which stays
/// whole until then and afterwards under the file name `previous`, if there is one. Throws UserError if the disk
/// refuses; what `tensor` throws leaves everything as it was.
void write_safetensors(const std::string& path, const std::vector<TensorEntry>& entries,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<HostTensor(const std::string& name)>& tensor,
                       const std::string& previous = "");

/// Files that write_safetensors wrote with these words at the front of their metadata.
OutputKind safetensors_kind(std::string what, std::string words);

/// Which element types a reader takes.
enum class SafetensorsTypes {
  own,     ///< f32 and i32, as write_safetensors writes them; others are refused
  foreign  ///< also f16, bf16 and f64, which are read as f32; tensors of others are left out
};

/// A file opened for reading; its header has been checked against its size.
class SafetensorsFile {
 public:
  /// Throws UserError naming the file if it is missing, cut short, or no safetensors file of such types. As the format
  /// asks, no key may stand twice, and tensors have to fill the file one behind the other, without gap or overlap.
  explicit SafetensorsFile(const std::string& path, SafetensorsTypes accepted = SafetensorsTypes::own);
  /// Without the checksums.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::map<std::string, TensorType>& types() const { return types_; }
  /// Whether the header and every tensor have a checksum. That of the header has been checked.
  bool checksummed() const;
  const std::string& header_hash() const { return header_hash_; }
  /// Throws UserError if the file lacks the tensor, or has other bytes than its checksum is of.
  HostTensor read(const std::string& name);

 private:
  void read_header(const std::string& header, int64_t data_start, int64_t data_bytes);
  void take_metadata(std::map<std::string, std::string> metadata, const std::string& header);

  std::string path_;
  SafetensorsTypes accepted_;
  std::ifstream file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorType> types_;
  std::map<std::string, int64_t> offsets_;        ///< from the start of the file
  std::map<std::string, StoredTensor> stored_;    ///< those of element types that are not read as they are
  std::map<std::string, std::string> checksums_;  ///< of tensors
  std::string header_hash_;
  bool header_checksummed_ = false;
};

}  // namespace hetsynth
