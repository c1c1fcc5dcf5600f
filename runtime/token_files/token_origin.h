// Which tokenizer made tokens, as token files and checkpoints say it.
#pragma once
#include <string>
#include <string_view>

#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

struct TokenOrigin {
  std::string name;         ///< for people: "tokenizer.json, byte-level BPE of 8192 tokens"
  std::string fingerprint;  ///< of all tokens and of what becomes of a text; empty: it is not known
  bool known() const { return !fingerprint.empty(); }
  bool operator==(const TokenOrigin&) const = default;
};

/// Returns what is said of tokens that a tokenizer makes, which was opened from a file. The fingerprint is that of what
/// it does: another file of the same tokenizer has the same.
TokenOrigin origin_of(const Tokenizer& tokenizer, const std::string& path);
/// Returns what is said of texts whose bytes are the tokens.
TokenOrigin origin_of_bytes();

/// "tokenizer.json, byte-level BPE of 8192 tokens (fingerprint 0123456789abcdef)".
std::string text(const TokenOrigin& origin);

/// Whether both are known and not the same.
bool differ(const TokenOrigin& a, const TokenOrigin& b);
/// Throws UserError (tag "tokenizer") if they differ. `path`: the file that is told of.
void check_same_origin(const std::string& path, const std::string& message, const TokenOrigin& expected,
                       const TokenOrigin& found, const std::string& mend);

/// As headers of token files have it: one line of printable ASCII, of at most 140 bytes; empty if it is not known.
std::string header_line(const TokenOrigin& origin);
/// What a header says; not known if that is something else.
TokenOrigin origin_in(std::string_view line);

}  // namespace hetsynth
