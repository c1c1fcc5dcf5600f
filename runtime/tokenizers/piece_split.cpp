#include "runtime/tokenizers/piece_split.h"

#include <algorithm>
#include <functional>

#include "runtime/tokenizers/early_unicode.h"
#include "runtime/tokenizers/normalizer.h"
#include "runtime/unicode/categories.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {
namespace {

using Step = PreTokenizerStep;
using Kind = Step::Kind;
using Behavior = Step::Behavior;

struct Span {
  size_t begin = 0, end = 0;
  bool match = false;
};

/// Cover the whole text.
using Spans = std::vector<Span>;

/// The matches that `next` finds one after the other, and what lies between them.
Spans spans_of(std::string_view text,
               const std::function<std::optional<std::pair<size_t, size_t>>(size_t from)>& next) {
  Spans out;
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    const auto match = next(from);
    if (!match) break;
    if (match->first == match->second) {  // says nothing
      from = match->first + (match->first < text.size() ? unicode::sequence_bytes(text[match->first]) : 1);
      continue;
    }
    if (match->first > done) out.push_back({done, match->first, false});
    out.push_back({match->first, match->second, true});
    from = done = match->second;
  }
  if (done < text.size()) out.push_back({done, text.size(), false});
  return out;
}

/// Runs of code points of one kind; `single`: one span for each that matches.
Spans runs_of(std::string_view text, bool single, const std::function<bool(char32_t)>& matches) {
  Spans out;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint point = unicode::code_point_at(text, at);
    const bool match = matches(point.code);
    if (!out.empty() && out.back().match == match && !(match && single)) {
      out.back().end += point.bytes;
    } else {
      out.push_back({at, at + point.bytes, match});
    }
    at += point.bytes;
  }
  return out;
}

Spans word_or_signs(std::string_view text) {
  Spans out;
  const auto kind = [](char32_t code) { return unicode::is_word(code) ? 1 : unicode::is_space(code) ? 0 : 2; };
  int last = -1;
  for (size_t at = 0; at < text.size();) {
    const unicode::CodePoint point = unicode::code_point_at(text, at);
    const int now = kind(point.code);
    if (now == last) {
      out.back().end += point.bytes;
    } else {
      out.push_back({at, at + point.bytes, now != 0});
    }
    last = now;
    at += point.bytes;
  }
  return out;
}

/// As NormalizedString::split of PyPI's tokenizers: what is kept of matches, and with what.
Spans kept(Spans spans, Behavior behavior) {
  Spans out;
  bool last = false;
  switch (behavior) {
    case Behavior::isolated:
      return spans;
    case Behavior::removed:
      std::erase_if(spans, [](const Span& span) { return span.match; });
      return spans;
    case Behavior::contiguous:
      for (const Span& span : spans) {
        if (span.match == last && !out.empty()) {
          out.back().end = span.end;
        } else {
          out.push_back(span);
        }
        last = span.match;
      }
      return out;
    case Behavior::merged_with_previous:
      for (const Span& span : spans) {
        if (span.match && !last && !out.empty()) {
          out.back().end = span.end;
        } else {
          out.push_back(span);
        }
        last = span.match;
      }
      return out;
    case Behavior::merged_with_next:
      std::ranges::reverse(spans);
      for (const Span& span : spans) {
        if (span.match && !last && !out.empty()) {
          out.back().begin = span.begin;
        } else {
          out.push_back(span);
        }
        last = span.match;
      }
      std::ranges::reverse(out);
      return out;
  }
  return out;
}

Spans spans_of_literal(std::string_view text, const std::string& what) {
  return spans_of(text, [&](size_t from) -> std::optional<std::pair<size_t, size_t>> {
    const size_t at = what.empty() ? std::string_view::npos : text.find(what, from);
    if (at == std::string_view::npos) return {};
    return std::pair{at, at + what.size()};
  });
}

Spans matches(const Step& step, std::string_view text) {
  switch (step.kind) {
    case Kind::words: {
      Spans out;
      for (size_t at = 0; at < text.size(); at = out.back().end)
        out.push_back({at, step.pattern.end_of_word(text, at, false), false});
      return out;
    }
    case Kind::expression:
      return spans_of(text, [&](size_t from) { return step.expression.front().find(text, from); });
    case Kind::literal:
    case Kind::metaspace:
      return spans_of_literal(text, step.text);
    case Kind::space:
      return runs_of(text, false, unicode::is_space);
    case Kind::word_or_signs:
      return word_or_signs(text);
    case Kind::punctuation:
      return runs_of(text, true, is_early_punctuation);
    case Kind::number:
      return runs_of(text, false, unicode::is_number);
    case Kind::digit:
      return runs_of(text, true, unicode::is_number);
    case Kind::prefix_space:
      break;
  }
  return {{0, text.size(), false}};
}

void append_parts(const Piece& piece, const Spans& spans, std::vector<Piece>& parts) {
  for (const Span& span : spans) {
    if (span.begin < span.end)
      parts.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
  }
}

}  // namespace

void split_piece(const Step& step, Piece piece, std::vector<Piece>& parts) {
  if (piece.text.empty()) return;
  if (step.kind == Kind::prefix_space) {
    if (!piece.text.starts_with(' ')) piece.text.insert(0, " ");
    parts.push_back(std::move(piece));
    return;
  }
  if (step.kind == Kind::metaspace) {
    piece.text = replaced(piece.text, " ", step.text);
    const bool wanted = step.prepend == Step::Prepend::always || (step.prepend == Step::Prepend::first && piece.first);
    if (wanted && !piece.text.starts_with(step.text)) piece.text.insert(0, step.text);
    if (!step.split) {
      parts.push_back(std::move(piece));
    } else {
      append_parts(piece, kept(matches(step, piece.text), Behavior::merged_with_next), parts);
    }
    return;
  }
  Spans spans = matches(step, piece.text);
  if (step.kind == Kind::words) return append_parts(piece, spans, parts);
  if (step.invert) {
    for (Span& span : spans) span.match = !span.match;
  }
  append_parts(piece, kept(std::move(spans), step.behavior), parts);
}

}  // namespace hetsynth
