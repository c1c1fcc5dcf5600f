// What the readers of a file of rules have in common: weight_map.h, gguf_rules.h, merge_rules.h.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/toml_text.h"

namespace hetsynth {

inline int line_of(const toml::node& node) { return int(node.source().begin.line); }

/// Throws UserError for what is no rule, with the place in the file.
[[noreturn]] void refuse_rule(const char* tag, const std::string& file, int line, const std::string& message,
                              const std::string& expected, const std::string& found = "",
                              const std::string& mend = "docs/weights.md shows such a file");

/// Names in braces, in order: "h{i}.query" has i. A brace that nothing closes gives one that is empty.
std::vector<std::string> names_in(const std::string& pattern);

/// A list for people: "a, b, c and 5 more".
std::string short_list(const std::vector<std::string>& names);

}  // namespace hetsynth
