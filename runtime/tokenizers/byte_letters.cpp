#include "runtime/tokenizers/byte_letters.h"

#include <array>

#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

constexpr char32_t letters = 0x144;

struct Letters {
  std::array<char32_t, 256> of_byte{};
  std::array<int, letters> byte_of{};
  Letters() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      of_byte[byte] = prints ? byte : next++;
      byte_of[of_byte[byte]] = static_cast<int>(byte);
    }
  }
};

const Letters& table() {
  static const Letters made;
  return made;
}

}  // namespace

char32_t byte_letter(unsigned char byte) { return table().of_byte[byte]; }

std::string byte_letters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) unicode::append(out, byte_letter(static_cast<unsigned char>(byte)));
  return out;
}

std::optional<std::string> bytes_of_letters(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint point = unicode::code_point_at(text, at);
    const int byte = point.code < letters ? table().byte_of[point.code] : -1;
    if (byte < 0) return {};
    out += static_cast<char>(byte);
    at += point.bytes;
  }
  return out;
}

}  // namespace hetsynth
