// The header of a safetensors file (https://github.com/huggingface/safetensors): a JSON object that says of every
// tensor its element type, shape, and place behind the header.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/element_type.h"

namespace hetsynth {

struct StoredTensor {
  std::string dtype;               ///< as the format calls it: "F32"
  std::optional<StoredType> type;  ///< none: its elements are numbers of 8 bits that nothing here reads (F8_E4M3)
  int64_t element_bytes = 0;
  std::vector<int64_t> shape;  ///< extents of 0 and more; their product and its bytes fit into int64
  int64_t begin = 0, end = 0;  ///< bytes, from the end of the header on
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::map<std::string, StoredTensor> tensors;
};

/// As the format's own library limits it.
inline constexpr int64_t largest_safetensors_header = 100'000'000;

/// Reads the text of a header that is followed by `data_bytes` bytes. As the format asks, no key may stand twice, and
/// tensors have to fill the file one behind the other, without gap or overlap. Throws UserError, tagged `tag`, naming
/// `path` for anything else. `readable`: the element types that the caller takes, as it names them itself, for the
/// message on one that the format does not have.
SafetensorsHeader parse_safetensors_header(const std::string& path, const std::string& tag, const std::string& text,
                                           int64_t data_bytes, const std::string& readable);

}  // namespace hetsynth
