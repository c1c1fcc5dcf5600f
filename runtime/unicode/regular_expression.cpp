#include "runtime/unicode/regular_expression.h"

#include <algorithm>

#include "dsl/base/error.h"
#include "runtime/unicode/categories.h"
#include "runtime/unicode/pattern_parser.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::unicode {
namespace {

using Kind = RegularExpression::Instruction::Kind;

/// Ways that may still be tried; a run of a megabyte takes a million.
constexpr size_t most_ways = size_t{1} << 26;

}  // namespace

bool CodeSet::has(char32_t code) const {
  const auto in_ranges = [&] {
    return std::ranges::any_of(ranges, [&](const auto& range) { return code >= range.first && code <= range.second; });
  };
  const auto bit = [&] { return uint32_t{1} << static_cast<int>(category(code)); };
  const bool found = in_ranges() || (space && is_space(code)) || (no_space && !is_space(code)) ||
                     (word && onig_word(code)) || (no_word && !onig_word(code)) ||
                     (categories && (bit() & categories)) || (no_categories && !(bit() & no_categories));
  return found != negated;
}

RegularExpression::RegularExpression(std::string_view pattern) {
  CompiledPattern compiled = compile_pattern(pattern);
  program_ = std::move(compiled.program);
  sets_ = std::move(compiled.sets);
  for (const CodeSet& set : sets_) {
    std::array<bool, 128>& row = ascii_.emplace_back();
    for (char32_t code = 0; code < 128; ++code) row[code] = set.has(code);
  }
}

bool RegularExpression::run(std::string_view text, int program, size_t at, size_t* end) const {
  struct Way {
    int program;
    size_t at;
  };
  std::vector<Way> ways{{program, at}};
  while (!ways.empty()) {
    auto [step, place] = ways.back();
    ways.pop_back();
    for (bool alive = true; alive;) {
      const Instruction& now = program_[static_cast<size_t>(step)];
      size_t inner = 0;
      switch (now.kind) {
        case Kind::done:
          *end = place;
          return true;
        case Kind::set: {
          alive = place < text.size();
          if (!alive) break;
          const CodePoint point = code_point_at(text, place);
          const auto set = static_cast<size_t>(now.first);
          alive = point.code < 128 ? ascii_[set][point.code] : sets_[set].has(point.code);
          place += point.bytes;
          ++step;
          break;
        }
        case Kind::split:
          if (ways.size() >= most_ways) {
            throw UserError({.tag = "tokenizer",
                             .message = "cutting this text into words by the tokenizer's regular expression takes too "
                                        "much memory",
                             .mend = "cut the text into smaller files"});
          }
          ways.push_back({now.second, place});
          step = now.first;
          break;
        case Kind::jump:
          step = now.first;
          break;
        case Kind::look_ahead:
          alive = run(text, step + 1, place, &inner);
          step = now.first;
          break;
        case Kind::look_ahead_not:
          alive = !run(text, step + 1, place, &inner);
          step = now.first;
          break;
        case Kind::atomic:
          alive = run(text, step + 1, place, &inner);
          if (alive) place = inner;
          step = now.first;
          break;
        case Kind::line_begin:
          alive = place == 0 || text[place - 1] == '\n';
          ++step;
          break;
        case Kind::line_end:
          alive = place == text.size() || text[place] == '\n';
          ++step;
          break;
        case Kind::text_begin:
          alive = place == 0;
          ++step;
          break;
        case Kind::text_end:
          alive = place == text.size();
          ++step;
          break;
      }
    }
  }
  return false;
}

std::optional<std::pair<size_t, size_t>> RegularExpression::find(std::string_view text, size_t from) const {
  for (size_t at = from; at <= text.size(); at += at < text.size() ? sequence_bytes(text[at]) : 1) {
    size_t end = 0;
    if (run(text, 0, at, &end)) return std::pair{at, end};
  }
  return {};
}

}  // namespace hetsynth::unicode
