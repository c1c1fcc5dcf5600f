// Normal forms of Unicode (Unicode Standard Annex 15) and lower case, by utf8proc.
#pragma once
#include <string>
#include <string_view>

namespace hetsynth::unicode {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// Of valid UTF-8. Code points that utf8proc's Unicode (15 in Debian 12) does not know stay as they are.
std::string normalized(std::string_view text, NormalForm form);

/// Code point by code point, without regard to neighbours, as PyPI's tokenizers does it.
std::string lower_case(std::string_view text);

}  // namespace hetsynth::unicode
