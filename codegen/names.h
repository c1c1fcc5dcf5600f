// Identifiers of the generated text: the user's tensor names, made unique and fit for C++.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/local.h"

namespace hetsynth::codegen {

/// Hands out identifiers, each once.
class Names {
 public:
  /// The wish with what C++ does not allow replaced, and a number appended if it was given before.
  std::string take(std::string_view wish);

 private:
  std::vector<std::string> taken_;
};

/// One identifier per value: the tensor's name; further placements of it say how they came about ("h_gathered",
/// "d_w_reduced").
std::vector<std::string> name_values(const LocalProgram& program, const Program& reference);

}  // namespace hetsynth::codegen
