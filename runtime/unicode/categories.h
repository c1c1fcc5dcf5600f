// Properties of code points by Unicode 16, which is what PyPI's tokenizers 0.23 and tiktoken 0.14 go by: whichever
// version the C library knows, words end at the same places.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hetsynth::unicode {

/// General categories, in the order of make_category_table.py.
enum class Category : uint8_t {
  Cn,
  Cc,
  Cf,
  Cs,
  Co,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp
};

/// Runs of code points that are alike, sorted: first code point << 8 | word << 7 | category.
extern const std::span<const uint32_t> category_runs;

/// Bits of `properties`.
enum Property : uint8_t { letter = 1, number = 2, space = 4, word = 8, line_end = 16 };

/// By code point: the properties above. Made once, at the first call.
const uint8_t* property_table();

Category category(char32_t code);
inline bool is_letter(char32_t code) { return property_table()[code] & letter; }
inline bool is_number(char32_t code) { return property_table()[code] & number; }
/// White_Space of PropList.txt, which is \s of Oniguruma and of Rust's regex.
inline bool is_space(char32_t code) { return property_table()[code] & space; }
/// \w of Unicode Technical Standard 18 and of Rust's regex.
inline bool is_word(char32_t code) { return property_table()[code] & word; }

/// A set of categories, a bit each: "L" is all whose names begin with L, "Lu" is one. 0: there is no such name.
uint32_t category_set(std::string_view name);

}  // namespace hetsynth::unicode
