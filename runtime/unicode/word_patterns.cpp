#include "runtime/unicode/word_patterns.h"

#include <algorithm>

#include "runtime/unicode/categories.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::unicode {
namespace {

/// Reads a text forward, with the properties of what it reads.
struct Cursor {
  std::string_view text;
  const uint8_t* table = property_table();

  struct Step {
    uint8_t properties;
    size_t end;  ///< of the code point
  };
  Step step(size_t at) const {
    const CodePoint point = code_point_at(text, at);
    return {table[point.code], at + point.bytes};
  }
  /// The end of the code points from `at` on that have one of `wanted` and none of `unwanted`.
  size_t run(size_t at, uint8_t wanted, size_t most = std::string_view::npos) const {
    for (size_t count = 0; at < text.size() && count < most; ++count) {
      const Step next = step(at);
      if (!(next.properties & wanted)) break;
      at = next.end;
    }
    return at;
  }
  /// The end of what is no space, letter or number.
  size_t run_of_signs(size_t at) const {
    while (at < text.size()) {
      const Step next = step(at);
      if (next.properties & (space | letter | number)) break;
      at = next.end;
    }
    return at;
  }
};

/// The end of 's, 't, 're, 've, 'm, 'll or 'd at the apostrophe `at`; `at` if there is none.
size_t contraction(std::string_view text, size_t at, bool any_case) {
  const auto letter_at = [&](size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter_at(at + 1), second = first ? letter_at(at + 2) : '\0';
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
  if (first == 'l' && second == 'l') return at + 3;
  // The long s is an s where case is ignored.
  if (any_case && text.substr(at + 1).starts_with("\xC5\xBF")) return at + 3;
  return at;
}

/// The end of a run of space: without its last code point where a word follows, which may take that.
size_t end_of_space(const Cursor& cursor, size_t at, size_t end, bool more) {
  if (end == cursor.text.size() && !more) return end;
  const size_t last = at + last_code_point(cursor.text.substr(at, end - at));
  return last > at ? last : end;
}

size_t gpt2_word(const Cursor& cursor, size_t at, bool more) {
  const std::string_view text = cursor.text;
  if (text[at] == '\'') {
    if (const size_t end = contraction(text, at, false); end > at) return end;
  }
  size_t start = at;
  Cursor::Step first = cursor.step(at);
  if (text[at] == ' ' && at + 1 < text.size()) {
    start = at + 1;
    first = cursor.step(start);
  }
  if (first.properties & letter) return cursor.run(first.end, letter);
  if (first.properties & number) return cursor.run(first.end, number);
  if (!(first.properties & space)) return cursor.run_of_signs(first.end);
  return end_of_space(cursor, at, cursor.run(at, space), more);
}

size_t llama3_word(const Cursor& cursor, size_t at, bool more, const WordPattern& pattern) {
  const std::string_view text = cursor.text;
  if (text[at] == '\'') {
    if (const size_t end = contraction(text, at, true); end > at) return end;
  }
  const Cursor::Step first = cursor.step(at);
  if (first.properties & letter) return cursor.run(first.end, letter);
  if (first.properties & number) return cursor.run(at, number, static_cast<size_t>(pattern.digits));
  const bool has_next = first.end < text.size();
  const Cursor::Step next = has_next ? cursor.step(first.end) : Cursor::Step{space, first.end};
  if (!(first.properties & line_end) && (next.properties & letter)) return cursor.run(next.end, letter);
  if (!(first.properties & space)) return cursor.run(cursor.run_of_signs(first.end), line_end);
  if (text[at] == ' ' && !(next.properties & (space | number)))
    return cursor.run(cursor.run_of_signs(next.end), line_end);
  const size_t end = cursor.run(at, space);
  if (pattern.whole_end_space && end == text.size() && !more) return end;
  const size_t last = text.substr(at, end - at).find_last_of("\r\n");
  if (last != std::string_view::npos) return at + last + 1;
  return end_of_space(cursor, at, end, more);
}

struct Known {
  std::string_view expression;
  WordPattern pattern;
};

}  // namespace

const std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view llama3_expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

size_t WordPattern::end_of_word(std::string_view text, size_t at, bool more) const {
  const Cursor cursor{text};
  return family == Family::gpt2 ? gpt2_word(cursor, at, more) : llama3_word(cursor, at, more, *this);
}

std::optional<WordPattern> word_pattern(std::string_view regular_expression) {
  using enum WordPattern::Family;
  static const Known known[] = {
      {gpt2_expression, {gpt2}},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {gpt2}},
      {llama3_expression, {llama3, 3}},
      // Qwen 2: every digit is a word.
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {llama3, 1}},
      // cl100k of tiktoken, which also takes the space at the end of a text as a whole.
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)",
       {llama3, 3, true}},
  };
  const auto found = std::ranges::find(known, regular_expression, &Known::expression);
  if (found == std::end(known)) return {};
  return found->pattern;
}

}  // namespace hetsynth::unicode
