#include "runtime/tokenizers/text_stream.h"

#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

/// A decoder that replaces what is no UTF-8 itself shows a sequence that is not whole so.
constexpr std::string_view replacement = "\xEF\xBF\xBD";
/// Tokens of which a code point can be made up.
constexpr size_t longest_sequence = 4;

}  // namespace

std::string TextStream::text_of(std::span<const int32_t> tokens) const {
  if (tokenizer_) return tokenizer_->decode(tokens);
  std::string bytes;
  for (const int32_t token : tokens) bytes += static_cast<char>(token);
  return bytes;
}

std::string TextStream::take(bool last) {
  const std::span<const int32_t> all = tokens_;
  const std::string before = text_of(all.first(given_)), now = text_of(all);
  const bool replaced = now.ends_with(replacement) && all.size() - given_ < longest_sequence;
  if (!last && (unicode::unfinished_bytes(now) > 0 || replaced)) return "";
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = tokens_.size();
  return unicode::with_replacements(now.size() > before.size() ? std::string_view(now).substr(before.size()) : "");
}

std::string TextStream::add(int32_t token) {
  tokens_.push_back(token);
  return take(false);
}

std::string TextStream::end() { return take(true); }

}  // namespace hetsynth
