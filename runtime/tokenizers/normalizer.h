// What a tokenizer.json does to a text before it looks for words: a list of steps.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dsl/base/json_tree.h"
#include "runtime/unicode/normalization.h"
#include "runtime/unicode/regular_expression.h"

namespace hetsynth {

struct NormalizerStep {
  enum class Kind { form, lower_case, prepend, replace, replace_pattern, strip, strip_accents };
  Kind kind = Kind::form;
  unicode::NormalForm form = unicode::NormalForm::nfc;
  std::string what, with;                              ///< of prepend `with` alone
  std::vector<unicode::RegularExpression> expression;  ///< of replace_pattern: one
  bool left = true, right = true;                      ///< of strip
};

class Normalizer {
 public:
  Normalizer() = default;
  /// Reads the member "normalizer". Throws UserError for kinds that are not supported.
  explicit Normalizer(const JsonReader& json);
  bool empty() const { return steps_.empty(); }
  std::string apply(std::string text) const;
  /// Whether the parts before and after a line feed may be normalized one by one, and space stays space.
  bool works_by_line() const;

 private:
  void add(const JsonReader& json);
  std::vector<NormalizerStep> steps_;
};

/// A regular expression of the file. Throws UserError showing the place in it that is not supported.
unicode::RegularExpression read_expression(const JsonReader& json);

/// Every `what` of the text, from left to right, replaced by `with`.
std::string replaced(const std::string& text, const std::string& what, const std::string& with);

}  // namespace hetsynth
