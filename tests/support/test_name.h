// Names of parametrised tests.
#pragma once
#include <cctype>
#include <string>

namespace hetsynth::testing {

/// With everything but letters and digits as underscores: googletest allows no others.
inline std::string test_name(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace hetsynth::testing
