// A regular expression's text becomes a program of regular_expression.h.
#pragma once
#include <string_view>
#include <vector>

#include "runtime/unicode/regular_expression.h"

namespace hetsynth::unicode {

struct CompiledPattern {
  std::vector<RegularExpression::Instruction> program;
  std::vector<CodeSet> sets;
};

/// Throws PatternFlaw for what is not supported or not finished.
CompiledPattern compile_pattern(std::string_view pattern);

/// \w of Oniguruma: it takes other superscripts and fractions for words than Rust, and joiners for none.
bool onig_word(char32_t code);

}  // namespace hetsynth::unicode
