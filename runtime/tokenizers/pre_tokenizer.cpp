#include "runtime/tokenizers/pre_tokenizer.h"

#include "dsl/base/suggest.h"
#include "runtime/tokenizers/normalizer.h"
#include "runtime/tokenizers/piece_split.h"

namespace hetsynth {
namespace {

using Step = PreTokenizerStep;
using Kind = Step::Kind;
using Behavior = Step::Behavior;

Behavior read_behavior(const JsonReader& json) {
  const std::string& name = json.string();
  if (name == "Isolated") return Behavior::isolated;
  if (name == "Removed") return Behavior::removed;
  if (name == "Contiguous") return Behavior::contiguous;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  json.fail("there is no such behavior", "Isolated, Removed, Contiguous, MergedWithPrevious or MergedWithNext",
            quote(name));
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonReader& json) {
  if (!json.is_null()) add(json);
}

void PreTokenizer::add(const JsonReader& json) {
  const std::string& type = json.member("type").string();
  if (type == "Sequence") {
    for (const JsonReader& part : json.member("pretokenizers").elements()) add(part);
    return;
  }
  if (byte_level_) json.fail("nothing may follow a pre-tokenizer of kind ByteLevel", "", quote(type));
  if (type == "ByteLevel") {
    if (json.member("add_prefix_space").boolean()) steps_.push_back({.kind = Kind::prefix_space});
    if (!json.has("use_regex") || json.member("use_regex").boolean()) steps_.push_back({.kind = Kind::words});
    byte_level_ = true;
  } else if (type == "Split") {
    add_split(json);
  } else if (type == "Metaspace") {
    add_metaspace(json);
  } else if (type == "Whitespace") {
    steps_.push_back({.kind = Kind::word_or_signs, .behavior = Behavior::removed, .invert = true});
  } else if (type == "WhitespaceSplit") {
    steps_.push_back({.kind = Kind::space, .behavior = Behavior::removed});
  } else if (type == "BertPreTokenizer") {
    steps_.push_back({.kind = Kind::space, .behavior = Behavior::removed});
    steps_.push_back({.kind = Kind::punctuation});
  } else if (type == "Punctuation") {
    steps_.push_back({.kind = Kind::punctuation, .behavior = read_behavior(json.member("behavior"))});
  } else if (type == "Digits") {
    steps_.push_back({.kind = json.member("individual_digits").boolean() ? Kind::digit : Kind::number});
  } else {
    json.member("type").fail("this kind of pre-tokenizer is not supported",
                             "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, "
                             "Digits or Sequence",
                             quote(type));
  }
}

void PreTokenizer::add_split(const JsonReader& json) {
  Step step;
  step.behavior = read_behavior(json.member("behavior"));
  step.invert = json.has("invert") && json.member("invert").boolean();
  const JsonReader pattern = json.member("pattern");
  if (pattern.has("String")) {
    step.kind = Kind::literal;
    step.text = pattern.member("String").string();
  } else {
    const JsonReader expression = pattern.member("Regex");
    const auto known = unicode::word_pattern(expression.string());
    const bool keeps_matches = step.invert ? step.behavior == Behavior::removed : step.behavior == Behavior::isolated;
    if (known && keeps_matches) {
      step.pattern = *known;
    } else {
      step.kind = Kind::expression;
      step.expression.push_back(read_expression(expression));
    }
  }
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_metaspace(const JsonReader& json) {
  Step step{.kind = Kind::metaspace};
  step.text = json.member("replacement").string();
  step.split = !json.has("split") || json.member("split").boolean();
  if (json.has("prepend_scheme")) {
    const JsonReader scheme = json.member("prepend_scheme");
    if (scheme.string() == "first") {
      step.prepend = Step::Prepend::first;
    } else if (scheme.string() == "never") {
      step.prepend = Step::Prepend::never;
    } else if (scheme.string() != "always") {
      scheme.fail("there is no such scheme", "always, first or never", quote(scheme.string()));
    }
  } else if (json.has("add_prefix_space") && !json.member("add_prefix_space").boolean()) {
    step.prepend = Step::Prepend::never;
  }
  steps_.push_back(std::move(step));
}

std::optional<unicode::WordPattern> PreTokenizer::only_words() const {
  if (steps_.size() != 1 || steps_[0].kind != Kind::words) return {};
  return steps_[0].pattern;
}

std::vector<Piece> PreTokenizer::words(std::string_view text, bool first) const {
  std::vector<Piece> pieces{{std::string(text), first}};
  for (const Step& step : steps_) {
    std::vector<Piece> parts;
    for (Piece& piece : pieces) split_piece(step, std::move(piece), parts);
    pieces = std::move(parts);
  }
  return pieces;
}

}  // namespace hetsynth
