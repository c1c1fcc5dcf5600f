// Identifiers of the generated text: the user's tensor names, made unique and fit for C++.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/passes/local.h"

namespace hetsynth::codegen {

/// Hands out identifiers, each once.
class Names {
 public:
  /// The wish with what C++ does not allow replaced, and a number appended if it was given before.
  std::string take(std::string_view wish);

 private:
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> next_;  ///< by name: the number that its next namesake tries first
};

/// One identifier per value: the tensor's name; further placements of it say how they came about ("h_gathered",
/// "d_w_reduced").
std::vector<std::string> name_values(const LocalProgram& program, const Program& reference);

}  // namespace hetsynth::codegen
