// GPT-2 spells every byte as one letter that can be printed (Radford et al. 2019, encoder.py: bytes_to_unicode): a
// space is "Ġ", a line feed "Ċ".
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hetsynth {

/// The letter of a byte, as a code point from 0x21 to 0x143.
char32_t byte_letter(unsigned char byte);
/// The bytes as letters, in UTF-8.
std::string byte_letters(std::string_view bytes);
/// What letters stand for; none if one of them stands for no byte.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace hetsynth
