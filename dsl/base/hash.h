// Content hashes for caches and plans.
#pragma once
#include <string>
#include <string_view>

namespace hetsynth {
/// xxHash3, 64 bit, as 16 hexadecimal digits.
std::string content_hash(std::string_view bytes);
/// xxHash3, 128 bit, as 32 hexadecimal digits: for keys under which code is kept and run.
std::string wide_content_hash(std::string_view bytes);
}  // namespace hetsynth
