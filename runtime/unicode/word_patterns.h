// Where words end by the patterns that nearly all tokenizers use, without a regular-expression engine: a letter costs a
// look into a table.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hetsynth::unicode {

/// One of a family of patterns that cut a text into words and leave nothing out.
struct WordPattern {
  enum class Family {
    gpt2,   ///< Radford et al. 2019: a word takes the space before it
    llama3  ///< cl100k and its relatives: a word takes any one sign before it, and signs take the ends of lines
  };
  Family family = Family::gpt2;
  int digits = 0;                ///< of llama3: longest number
  bool whole_end_space = false;  ///< space at the end of a text is one word, even where lines end in it

  /// The end of the word that begins at `at`, which is below the text's size. `more`: the text goes on after its end
  /// with something that is no space.
  size_t end_of_word(std::string_view text, size_t at, bool more) const;
};

/// The pattern that a regular expression stands for, if it is one of these.
std::optional<WordPattern> word_pattern(std::string_view regular_expression);

/// Expressions as files have them: of GPT-2 and of Llama 3.
extern const std::string_view gpt2_expression, llama3_expression;

}  // namespace hetsynth::unicode
