// Regular expressions over code points, as far as tokenizers use them: the syntax of Oniguruma without captures,
// references to them, looking behind and names of scripts.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hetsynth::unicode {

/// A set of code points.
struct CodeSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;  ///< both ends belong to it
  uint32_t categories = 0;                            ///< see category_set
  bool space = false, no_space = false, word = false, no_word = false;
  uint32_t no_categories = 0;  ///< everything outside of these belongs to it
  bool negated = false;
  bool has(char32_t code) const;
};

/// What a pattern cannot say here.
struct PatternFlaw {
  size_t at = 0;        ///< byte of the pattern
  std::string message;  ///< "looking behind is not supported"
};

class RegularExpression {
 public:
  /// Throws PatternFlaw.
  explicit RegularExpression(std::string_view pattern);

  /// Begin and end of the leftmost match that begins at `from` or later, alternatives tried in their order. Throws
  /// UserError if trying takes more than a bound of memory.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

  /// A program of a backtracking machine.
  struct Instruction {
    enum class Kind : uint8_t {
      set,
      split,
      jump,
      look_ahead,
      look_ahead_not,
      atomic,
      line_begin,
      line_end,
      text_begin,
      text_end,
      done
    };
    Kind kind = Kind::done;
    int first = 0;   ///< of split: tried first; of jump: where to; of set: its number; of groups: where they end
    int second = 0;  ///< of split: tried when the first failed
  };

 private:
  bool run(std::string_view text, int program, size_t at, size_t* end) const;

  std::vector<Instruction> program_;
  std::vector<CodeSet> sets_;
  std::vector<std::array<bool, 128>> ascii_;  ///< by set
};

}  // namespace hetsynth::unicode
