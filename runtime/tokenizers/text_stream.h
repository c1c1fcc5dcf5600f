// Tokens that come one by one, as text that can be shown at once.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

/// Always gives whole code points: bytes that further tokens may complete are held back, what is no UTF-8 becomes
/// U+FFFD.
class TextStream {
 public:
  /// Null: every token is a byte. The tokenizer outlives this.
  explicit TextStream(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}
  /// What the token adds to the text; empty while it waits for others.
  std::string add(int32_t token);
  /// What is held back when there are no more tokens.
  std::string end();

 private:
  std::string text_of(std::span<const int32_t> tokens) const;
  std::string take(bool last);

  const Tokenizer* tokenizer_;
  std::vector<int32_t> tokens_;  ///< the last ones
  size_t given_ = 0;             ///< of these, that were given: what a token adds may depend on those before
};

}  // namespace hetsynth
