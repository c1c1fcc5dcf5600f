#include "runtime/unicode/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hetsynth::unicode {
namespace {

struct Sequence {
  bool valid = false;
  size_t bytes = 1;  ///< of the sequence, or of its maximal subpart: what one U+FFFD stands for
};

/// The Unicode Standard, table 3-7. `text` is not empty.
Sequence sequence_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {true, 1};
  const size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0) return {};
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    const unsigned byte = i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
    if (byte < low || byte > high) return {false, i};
    low = 0x80;
    high = 0xBF;
  }
  return {true, length};
}

}  // namespace

size_t last_code_point(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

size_t first_invalid(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Sequence sequence = sequence_at(text.substr(at));
    if (!sequence.valid) return at;
    at += sequence.bytes;
  }
  return std::string_view::npos;
}

size_t unfinished_bytes(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(3, text.size()); ++bytes) {
    const std::string_view end = text.substr(text.size() - bytes);
    const auto first = static_cast<unsigned char>(end[0]);
    if (first < 0x80) return 0;
    if (first < 0xC0) continue;  // inside of a sequence
    const Sequence sequence = sequence_at(end);
    return first >= 0xC2 && first < 0xF5 && !sequence.valid && sequence.bytes == bytes ? bytes : 0;
  }
  return 0;
}

std::string with_replacements(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t good = std::min(first_invalid(text), text.size());
    out += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    append(out, 0xFFFD);
    text.remove_prefix(sequence_at(text).bytes);
  }
  return out;
}

void append(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

}  // namespace hetsynth::unicode
