// UTF-8: checking, reading and writing code points (RFC 3629).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hetsynth::unicode {

struct CodePoint {
  char32_t code = 0;
  size_t bytes = 0;
};

/// The code point at `text[at]` of valid UTF-8; `at` is below the size.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

/// Bytes of the sequence that begins with this byte of valid UTF-8.
inline size_t sequence_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// Where the last code point of valid, non-empty UTF-8 begins.
size_t last_code_point(std::string_view text);

/// Where the first sequence begins that is no UTF-8 (surrogates and overlong forms are none); npos if there is none.
size_t first_invalid(std::string_view text);

/// Bytes at the end that begin a sequence which further bytes could make whole; 0 if there is none such.
size_t unfinished_bytes(std::string_view text);

/// Every sequence that is no UTF-8 replaced by U+FFFD, once per maximal subpart (The Unicode Standard, section 3.9):
/// as Python's decode(errors="replace").
std::string with_replacements(std::string_view text);

void append(std::string& out, char32_t code);

}  // namespace hetsynth::unicode
