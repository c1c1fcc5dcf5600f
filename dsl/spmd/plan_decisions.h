// The decisions of a plan from JSON. Internal to dsl/spmd.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/json_tree.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Position of a name in the set it has to be from. Throws UserError with a suggestion.
int choice(const JsonReader& reader, std::string_view what, const std::vector<std::string>& names,
           const std::string& text);

/// A text that may stand in comments of generated source: printable, without a backslash.
const std::string& label(const JsonReader& reader, size_t longest = 1000);

/// `devices`: how many ranks the mesh must have.
SpmdProgram read_decisions(const JsonReader& decisions, const Program& reference, size_t devices);

}  // namespace hetsynth
