// Names that are told apart by numbers.
#pragma once
#include <fmt/format.h>

#include <set>
#include <string>

namespace hetsynth {

/// `wish`, or with a number behind it if that is taken; it is taken from here on.
inline std::string unique_name(std::set<std::string>& taken, const std::string& wish) {
  std::string name = wish;
  for (int number = 2; !taken.insert(name).second; ++number) name = fmt::format("{}_{}", wish, number);
  return name;
}

}  // namespace hetsynth
