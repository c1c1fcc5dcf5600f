#include "runtime/unicode/normalization.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "dsl/base/error.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::unicode {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  switch (form) {
    case NormalForm::nfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case NormalForm::nfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case NormalForm::nfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case NormalForm::nfkd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  HETSYNTH_CHECK(false, "a normal form");
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

/// Capital letters of one distance to their small ones.
struct Capitals {
  char32_t first, last;
  int32_t distance;
};

/// Those of Unicode 16 and 17 (UnicodeData.txt), which PyPI's tokenizers 0.23 lower; Debian 12's utf8proc is of Unicode
/// 15 and does not know them.
constexpr Capitals recent_capitals[] = {
    {0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
    {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
    {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
    {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
    {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B},
};

char32_t small_letter(char32_t code) {
  for (const Capitals& capitals : recent_capitals)
    if (capitals.first <= code && code <= capitals.last)
      return static_cast<char32_t>(static_cast<int32_t>(code) + capitals.distance);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                              static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  if (bytes == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  HETSYNTH_CHECK(bytes >= 0, utf8proc_errmsg(bytes));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(made, &std::free);
  return {reinterpret_cast<const char*>(made), static_cast<size_t>(bytes)};
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.code < 0x80) {
      out += point.code >= 'A' && point.code <= 'Z' ? static_cast<char>(point.code + 0x20) : text[at];
    } else if (point.code == 0x130) {
      out += "i\xCC\x87";  // the one letter whose lower case is two code points (SpecialCasing.txt)
    } else {
      append(out, small_letter(point.code));
    }
    at += point.bytes;
  }
  return out;
}

}  // namespace hetsynth::unicode
