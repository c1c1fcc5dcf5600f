// Content hashes for caches and plans.
#pragma once
#include <string>
#include <string_view>

namespace hetsynth {
/// xxHash3, 64 bit, as 16 hexadecimal digits.
std::string content_hash(std::string_view bytes);
}  // namespace hetsynth
