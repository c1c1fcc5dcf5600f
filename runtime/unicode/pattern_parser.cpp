#include "runtime/unicode/pattern_parser.h"

#include <algorithm>
#include <optional>

#include "runtime/unicode/categories.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::unicode {
namespace {

using Instruction = RegularExpression::Instruction;
using Kind = Instruction::Kind;
using Program = std::vector<Instruction>;

constexpr int most_nested = 64;
constexpr size_t longest_program = 20000;
constexpr int greatest_count = 1000;

/// Instructions whose targets count from their own place, so that they can be put together and repeated.
void add(Program& to, const Program& part) { to.insert(to.end(), part.begin(), part.end()); }
int size_of(const Program& part) { return static_cast<int>(part.size()); }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  CompiledPattern compile() {
    CompiledPattern out;
    out.program = alternatives();
    if (at_ < pattern_.size()) fail("a bracket is closed that was not opened");
    out.program.push_back({Kind::done});
    for (size_t i = 0; i < out.program.size(); ++i) {
      Instruction& now = out.program[i];
      if (now.kind == Kind::set || now.kind == Kind::done) continue;
      now.first += static_cast<int>(i);
      now.second += static_cast<int>(i);
    }
    out.sets = std::move(sets_);
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw PatternFlaw{at_, message}; }
  bool ends() const { return at_ >= pattern_.size(); }
  bool accept(std::string_view word) {
    if (!pattern_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char32_t take() {
    if (ends()) fail("the expression ends too early");
    const CodePoint point = code_point_at(pattern_, at_);
    at_ += point.bytes;
    return point.code;
  }

  Program alternatives() {
    if (++nested_ > most_nested) fail("brackets are nested too deeply");
    std::vector<Program> all{sequence()};
    while (accept("|")) all.push_back(sequence());
    --nested_;
    Program out = std::move(all.back());
    for (size_t i = all.size() - 1; i-- > 0;) {
      Program joined{{Kind::split, 1, size_of(all[i]) + 2}};
      add(joined, all[i]);
      joined.push_back({Kind::jump, size_of(out) + 1});
      add(joined, out);
      out = std::move(joined);
    }
    return out;
  }

  Program sequence() {
    Program out;
    while (!ends() && pattern_[at_] != '|' && pattern_[at_] != ')') {
      add(out, repeated(atom()));
      if (out.size() > longest_program) fail("the expression is too long");
    }
    return out;
  }

  Program of_set(CodeSet set) {
    sets_.push_back(std::move(set));
    return {{Kind::set, static_cast<int>(sets_.size()) - 1}};
  }

  Program group(Kind kind) {
    Program inside = alternatives();
    if (!accept(")")) fail("a bracket is not closed");
    inside.push_back({Kind::done});
    Program out{{kind, size_of(inside) + 1}};
    add(out, inside);
    return out;
  }

  Program plain_group(bool any_case) {
    const bool outside = any_case_;
    any_case_ = any_case;
    Program inside = alternatives();
    any_case_ = outside;
    if (!accept(")")) fail("a bracket is not closed");
    return inside;
  }

  Program atom() {
    if (accept("(?:")) return plain_group(any_case_);
    if (accept("(?i:")) return plain_group(true);
    if (accept("(?-i:")) return plain_group(false);
    if (accept("(?=")) return group(Kind::look_ahead);
    if (accept("(?!")) return group(Kind::look_ahead_not);
    if (accept("(?>")) return group(Kind::atomic);
    if (pattern_.substr(at_).starts_with("(?<=") || pattern_.substr(at_).starts_with("(?<!"))
      fail("looking behind is not supported");
    if (pattern_.substr(at_).starts_with("(?")) fail("this kind of group is not supported");
    if (accept("(")) return plain_group(any_case_);
    if (accept("[")) return of_set(bracket());
    if (accept(".")) return of_set({.ranges = {{'\n', '\n'}}, .negated = true});
    if (accept("^")) return {{Kind::line_begin}};
    if (accept("$")) return {{Kind::line_end}};
    if (accept("\\A")) return {{Kind::text_begin}};
    if (accept("\\z")) return {{Kind::text_end}};
    if (const char next = pattern_[at_]; next == '*' || next == '+' || next == '?') fail("there is nothing to repeat");
    CodeSet set;
    if (!escaped_set(set)) add_literal(set, literal());
    return of_set(std::move(set));
  }

  /// Adds \s, \p{L} and the like. Returns false, and reads nothing, for anything else.
  bool escaped_set(CodeSet& set) {
    if (accept("\\s")) return set.space = true;
    if (accept("\\S")) return set.no_space = true;
    if (accept("\\w")) return set.word = true;
    if (accept("\\W")) return set.no_word = true;
    if (accept("\\d")) return set.categories |= category_set("Nd");
    if (accept("\\D")) return add_all_but(set, category_set("Nd"));
    const bool not_in = accept("\\P{");
    if (!not_in && !accept("\\p{")) return false;
    const bool inverted = accept("^") != not_in;
    const size_t end = pattern_.find('}', at_);
    const uint32_t found = end == std::string_view::npos ? 0 : category_set(pattern_.substr(at_, end - at_));
    if (!found) fail("only general categories such as \\p{L} and \\p{Lu} are supported");
    at_ = end + 1;
    if (inverted) return add_all_but(set, found);
    set.categories |= found;
    return true;
  }

  bool add_all_but(CodeSet& set, uint32_t categories) {
    if (set.no_categories) fail("two negated categories in one set are not supported");
    set.no_categories = categories;
    return true;
  }

  char32_t hexadecimal(size_t least, size_t most) {
    char32_t out = 0;
    size_t digits = 0;
    for (; digits < most && !ends(); ++digits, ++at_) {
      const char c = pattern_[at_];
      const int value = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
      if (value < 0) break;
      out = out * 16 + static_cast<char32_t>(value);
    }
    if (digits < least || out >= 0x110000) fail("the number of a code point is expected here");
    return out;
  }

  char32_t literal() {
    if (!accept("\\")) return take();
    const char32_t next = take();
    switch (next) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'u':
        return hexadecimal(4, 4);
      case 'x':
        if (accept("{")) {
          const char32_t code = hexadecimal(1, 6);
          if (!accept("}")) fail("a bracket is not closed");
          return code;
        }
        return hexadecimal(2, 2);
      default:
        if (next >= 128 || is_word(next)) fail("this escape is not supported");
        return next;
    }
  }

  void add_literal(CodeSet& set, char32_t code) const {
    set.ranges.emplace_back(code, code);
    if (!any_case_) return;
    if (code >= 128) fail("letters other than those of ASCII are not supported where case is ignored");
    const char32_t lower = code | 0x20;
    if (lower < 'a' || lower > 'z') return;
    set.ranges.emplace_back(code ^ 0x20, code ^ 0x20);
    if (lower == 's') set.ranges.emplace_back(0x17F, 0x17F);    // the long s
    if (lower == 'k') set.ranges.emplace_back(0x212A, 0x212A);  // the sign of the kelvin
  }

  CodeSet bracket() {
    CodeSet out;
    out.negated = accept("^");
    for (bool first = true; first || !accept("]"); first = false) {
      if (ends()) fail("a bracket is not closed");
      if (pattern_[at_] == '[' || pattern_.substr(at_).starts_with("&&")) fail("sets of sets are not supported");
      if (escaped_set(out)) continue;
      const char32_t low = literal();
      const std::string_view rest = pattern_.substr(at_);
      if (rest.size() < 2 || rest[0] != '-' || rest[1] == ']') {
        add_literal(out, low);
        continue;
      }
      accept("-");
      const char32_t high = literal();
      if (high < low) fail("the ends of a range are in the wrong order");
      if (!any_case_) {
        out.ranges.emplace_back(low, high);
      } else if (high < 128) {
        for (char32_t code = low; code <= high; ++code) add_literal(out, code);
      } else {
        fail("letters other than those of ASCII are not supported where case is ignored");
      }
    }
    return out;
  }

  int number() {
    int out = 0;
    const size_t begin = at_;
    for (; !ends() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_) {
      out = out * 10 + (pattern_[at_] - '0');
      if (out > greatest_count) fail("the count is too large");
    }
    return at_ == begin ? -1 : out;
  }

  /// `part` as often as what follows says.
  Program repeated(Program part) {
    int least = 0, most = -1;
    const bool braces = pattern_.substr(at_).starts_with("{");
    if (accept("*")) {
    } else if (accept("+")) {
      least = 1;
    } else if (accept("?")) {
      most = 1;
    } else if (accept("{")) {
      least = number();
      most = accept(",") ? number() : least;
      if (!accept("}") || (least < 0 && most < 0)) fail("a count such as {1,3} is expected here");
      least = std::max(least, 0);
      if (most >= 0 && most < least) fail("the ends of a range are in the wrong order");
    } else {
      return part;
    }
    const bool lazy = accept("?");
    const bool possessive = !lazy && accept("+");
    // Oniguruma reads {1,3}+ as a repetition of a repetition.
    if (braces && possessive) fail("a + after a count is not supported");
    if (most < 0 && may_be_empty(part)) fail("an endless repetition of what may be empty is not supported");
    Program out = copies(part, least, most, lazy);
    if (!possessive) return out;
    out.push_back({Kind::done});
    Program group{{Kind::atomic, size_of(out) + 1}};
    add(group, out);
    return group;
  }

  Program copies(const Program& part, int least, int most, bool lazy) const {
    const int size = size_of(part);
    if (static_cast<size_t>(std::max(least, most) + 1) * (part.size() + 2) > longest_program)
      fail("the expression is too long");
    Program out;
    for (int i = 0; i < least; ++i) add(out, part);
    const auto split = [&](int out_of_it) {
      return lazy ? Instruction{Kind::split, out_of_it, 1} : Instruction{Kind::split, 1, out_of_it};
    };
    if (most < 0) {
      out.push_back(split(size + 2));
      add(out, part);
      out.push_back({Kind::jump, -(size + 1)});
    }
    for (int i = least; i < most; ++i) {
      out.push_back(split((most - i) * (size + 1)));
      add(out, part);
    }
    return out;
  }

  /// Whether there is a way through that reads nothing.
  static bool may_be_empty(const Program& part) {
    std::vector<bool> seen(part.size() + 1);
    std::vector<int> open{0};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at == size_of(part)) return true;
      if (seen[static_cast<size_t>(at)]) continue;
      seen[static_cast<size_t>(at)] = true;
      const Instruction& now = part[static_cast<size_t>(at)];
      if (now.kind == Kind::set) continue;
      const bool names_next = now.kind == Kind::split || now.kind == Kind::jump || now.kind == Kind::look_ahead ||
                              now.kind == Kind::look_ahead_not;
      open.push_back(names_next ? at + now.first : at + 1);
      if (now.kind == Kind::split) open.push_back(at + now.second);
      if (now.kind == Kind::atomic) {
        const auto begin = part.begin() + at + 1;
        if (!may_be_empty(Program(begin, begin + now.first - 2)))
          open.pop_back();
        else
          open.back() = at + now.first;
      }
    }
    return false;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int nested_ = 0;
  bool any_case_ = false;
  std::vector<CodeSet> sets_;
};

}  // namespace

CompiledPattern compile_pattern(std::string_view pattern) { return Parser(pattern).compile(); }

bool onig_word(char32_t code) {
  if (code == 0x200C || code == 0x200D) return false;
  return is_word(code) || code == 0xB2 || code == 0xB3 || code == 0xB9 || (code >= 0xBC && code <= 0xBE);
}

}  // namespace hetsynth::unicode
