// How a tokenizer.json cuts a text into words: a list of steps.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/json_tree.h"
#include "runtime/unicode/regular_expression.h"
#include "runtime/unicode/word_patterns.h"

namespace hetsynth {

/// A part of a text on its way to words.
struct Piece {
  std::string text;
  bool first = false;  ///< it begins where the text begins
};

struct PreTokenizerStep {
  enum class Kind {
    words,          ///< one of the well-known patterns
    prefix_space,   ///< a space before what does not begin with one
    literal,        ///< at every `text`
    expression,     ///< at every match
    space,          ///< at white space
    word_or_signs,  ///< \w+|[^\w\s]+
    punctuation,    ///< at every sign of punctuation
    number,         ///< at every run of numbers
    digit,          ///< at every number
    metaspace       ///< spaces become `text`, and begin words
  };
  enum class Behavior { isolated, removed, contiguous, merged_with_previous, merged_with_next };
  enum class Prepend { always, first, never };
  Kind kind = Kind::words;
  unicode::WordPattern pattern = {};
  std::string text = {};
  std::vector<unicode::RegularExpression> expression = {};  ///< of Kind::expression: one
  Behavior behavior = Behavior::isolated;
  bool invert = false;                ///< what lies between matches is the match
  Prepend prepend = Prepend::always;  ///< of metaspace
  bool split = true;                  ///< of metaspace: cut before every `text`
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// Reads the member "pre_tokenizer". Throws UserError for kinds that are not supported.
  explicit PreTokenizer(const JsonReader& json);
  /// Words are bytes, spelled by byte_letters.
  bool byte_level() const { return byte_level_; }
  /// The pattern, if one of the well-known ones is all there is.
  std::optional<unicode::WordPattern> only_words() const;
  std::vector<Piece> words(std::string_view text, bool first) const;

 private:
  void add(const JsonReader& json);
  void add_split(const JsonReader& json);
  void add_metaspace(const JsonReader& json);
  std::vector<PreTokenizerStep> steps_;
  bool byte_level_ = false;
};

}  // namespace hetsynth
