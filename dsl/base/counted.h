// Numbers of things in messages.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hetsynth {

/// "1 device", "2 devices". `several`: the word for more than one, where it is not the word and an s.
inline std::string counted(int64_t number, std::string_view word, std::string_view several = "") {
  if (number == 1) return fmt::format("1 {}", word);
  return several.empty() ? fmt::format("{} {}s", number, word) : fmt::format("{} {}", number, several);
}

}  // namespace hetsynth
