#include "runtime/tokenizers/normalizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/suggest.h"
#include "runtime/tokenizers/early_unicode.h"
#include "runtime/unicode/categories.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

using Rewrite = NormalizerStep::Kind;

std::string stripped(const std::string& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end && unicode::is_space(unicode::code_point_at(text, begin).code))
    begin += unicode::sequence_bytes(text[begin]);
  while (right && begin < end) {
    const size_t last = begin + unicode::last_code_point(std::string_view(text).substr(begin, end - begin));
    if (!unicode::is_space(unicode::code_point_at(text, last).code)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::string without_marks(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint point = unicode::code_point_at(text, at);
    if (!is_early_mark(point.code)) out += text.substr(at, point.bytes);
    at += point.bytes;
  }
  return out;
}

std::string replaced_matches(const std::string& text, const unicode::RegularExpression& what, const std::string& with) {
  std::string out;
  size_t done = 0;
  for (size_t from = 0; from <= text.size();) {
    const auto match = what.find(text, from);
    if (!match) break;
    out += text.substr(done, match->first - done) + with;
    done = match->second;
    from = match->second > match->first ? match->second
           : match->first < text.size() ? match->first + unicode::sequence_bytes(text[match->first])
                                        : text.size() + 1;
  }
  return out + text.substr(done);
}

}  // namespace

std::string replaced(const std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return text;
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(with);
    done = at + what.size();
  }
  return out.append(text, done);
}

unicode::RegularExpression read_expression(const JsonReader& json) {
  try {
    return unicode::RegularExpression(json.string());
  } catch (const unicode::PatternFlaw& flaw) {
    json.fail("this regular expression cannot be used: " + flaw.message,
              "groups, sets, general categories, repetitions and looking ahead",
              fmt::format("{} at byte {}", quote(json.string().substr(flaw.at)), flaw.at));
  }
}

Normalizer::Normalizer(const JsonReader& json) {
  if (!json.is_null()) add(json);
}

void Normalizer::add(const JsonReader& json) {
  const std::string& type = json.member("type").string();
  NormalizerStep step;
  if (type == "Sequence") {
    for (const JsonReader& part : json.member("normalizers").elements()) add(part);
    return;
  }
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    using enum unicode::NormalForm;
    step.form = type == "NFC" ? nfc : type == "NFD" ? nfd : type == "NFKC" ? nfkc : nfkd;
  } else if (type == "Lowercase") {
    step.kind = Rewrite::lower_case;
  } else if (type == "StripAccents") {
    step.kind = Rewrite::strip_accents;
  } else if (type == "Strip") {
    step.kind = Rewrite::strip;
    step.left = json.member("strip_left").boolean();
    step.right = json.member("strip_right").boolean();
  } else if (type == "Prepend") {
    step.kind = Rewrite::prepend;
    step.with = json.member("prepend").string();
  } else if (type == "Replace") {
    step.with = json.member("content").string();
    const JsonReader pattern = json.member("pattern");
    if (pattern.has("String")) {
      step.kind = Rewrite::replace;
      step.what = pattern.member("String").string();
    } else {
      step.kind = Rewrite::replace_pattern;
      step.expression.push_back(read_expression(pattern.member("Regex")));
    }
  } else {
    json.member("type").fail("this kind of normalizer is not supported",
                             "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace or Sequence",
                             quote(type));
  }
  steps_.push_back(std::move(step));
}

std::string Normalizer::apply(std::string text) const {
  for (const NormalizerStep& step : steps_) {
    switch (step.kind) {
      case Rewrite::form:
        text = unicode::normalized(text, step.form);
        break;
      case Rewrite::lower_case:
        text = unicode::lower_case(text);
        break;
      case Rewrite::prepend:
        if (!text.empty()) text.insert(0, step.with);
        break;
      case Rewrite::replace:
        text = replaced(text, step.what, step.with);
        break;
      case Rewrite::replace_pattern:
        text = replaced_matches(text, step.expression.front(), step.with);
        break;
      case Rewrite::strip:
        text = stripped(text, step.left, step.right);
        break;
      case Rewrite::strip_accents:
        text = without_marks(text);
        break;
    }
  }
  return text;
}

bool Normalizer::works_by_line() const {
  return std::ranges::all_of(steps_, [](const NormalizerStep& step) {
    // NFKC and NFKD make spaces of what is none, as of U+00A8.
    return step.kind == Rewrite::lower_case || (step.kind == Rewrite::form && (step.form == unicode::NormalForm::nfc ||
                                                                               step.form == unicode::NormalForm::nfd));
  });
}

}  // namespace hetsynth
