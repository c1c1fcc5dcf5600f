// Files that are no text, told by their first bytes.
#pragma once
#include <cstddef>
#include <cstdint>
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

/// First numbers of token files of llm.c (dev/data/data_common.py): of tokens in two bytes, and in four.
constexpr uint32_t llmc_short_tokens = 20240520, llmc_long_tokens = 20240801;
/// Where in their header, of which llm.c reads the first twelve bytes, ours say which tokenizer made the tokens.
constexpr size_t llmc_origin_at = 512;
/// Whether a file that begins with `head` says that it is one of them.
bool begins_like_llmc(std::string_view head);

/// Throws UserError if a file that begins with `head` is known to hold no plain text.
void refuse_binary(std::string_view head, const std::string& path, const std::string& tag);

/// What a file is that begins with `head`, if that is a well-known kind of file that holds no plain text.
std::optional<BinaryKind> binary_kind(std::string_view head);

}  // namespace hetsynth
