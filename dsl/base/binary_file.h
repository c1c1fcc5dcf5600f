// Files that are no text, told by their first bytes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hetsynth {

struct BinaryKind {
  std::string what;  ///< "a file packed by gzip"
  std::string mend;  ///< how to get at the text in it: "unpack it (gunzip)"
};

/// So many bytes tell all that are known.
constexpr size_t binary_head_bytes = 512;

/// What a file is that begins with `head`, if that is a well-known kind of file that holds no plain text.
std::optional<BinaryKind> binary_kind(std::string_view head);

}  // namespace hetsynth
