#include "runtime/tokenizers/token_decoder.h"

#include <algorithm>
#include <charconv>

#include "dsl/base/suggest.h"
#include "runtime/tokenizers/byte_letters.h"
#include "runtime/tokenizers/normalizer.h"

namespace hetsynth {
namespace {

/// "<0x0A>" is a byte.
bool read_byte(const std::string& token, char* byte) {
  unsigned value = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return false;
  if (std::from_chars(token.data() + 3, token.data() + 5, value, 16).ptr != token.data() + 5) return false;
  *byte = static_cast<char>(value);
  return true;
}

/// At most `left` times `what` at the beginning, and `right` times at the end.
std::string stripped(std::string_view text, const std::string& what, int64_t left, int64_t right) {
  for (; left > 0 && !what.empty() && text.starts_with(what); --left) text.remove_prefix(what.size());
  for (; right > 0 && !what.empty() && text.ends_with(what); --right) text.remove_suffix(what.size());
  return std::string(text);
}

}  // namespace

TokenDecoder::TokenDecoder(const JsonReader& json) {
  if (!json.is_null()) add(json);
}

void TokenDecoder::add(const JsonReader& json) {
  const std::string& type = json.member("type").string();
  Step step;
  spaces_between_ = false;
  if (type == "Sequence") {
    for (const JsonReader& part : json.member("decoders").elements()) add(part);
    return;
  }
  if (type == "Fuse") {
    step = {.kind = Step::Kind::strip};  // joins what the next steps then see as one
  } else if (type == "ByteLevel") {
    step.kind = Step::Kind::byte_letters;
  } else if (type == "Replace") {
    const JsonReader pattern = json.member("pattern");
    if (!pattern.has("String")) pattern.fail("only strings are replaced when tokens are put together");
    step = {.kind = Step::Kind::replace, .what = pattern.member("String").string()};
    step.with = json.member("content").string();
  } else if (type == "ByteFallback") {
    step.kind = Step::Kind::bytes;
  } else if (type == "Strip") {
    step = {.kind = Step::Kind::strip, .what = json.member("content").string()};
    step.left = json.member("start").integer(0, 1 << 20);
    step.right = json.member("stop").integer(0, 1 << 20);
  } else if (type == "BPEDecoder") {
    step = {.kind = Step::Kind::suffix, .what = json.member("suffix").string()};
  } else if (type == "WordPiece") {
    step = {.kind = Step::Kind::word_pieces, .what = json.member("prefix").string()};
  } else if (type == "Metaspace") {
    step = {.kind = Step::Kind::metaspace, .what = json.member("replacement").string()};
    step.first_space = json.has("prepend_scheme")
                           ? json.member("prepend_scheme").string() != "never"
                           : !json.has("add_prefix_space") || json.member("add_prefix_space").boolean();
  } else {
    json.member("type").fail("this kind of decoder is not supported",
                             "ByteLevel, Replace, ByteFallback, Fuse, Strip, BPEDecoder, WordPiece, Metaspace or "
                             "Sequence",
                             quote(type));
  }
  steps_.push_back(std::move(step));
}

void TokenDecoder::apply(const Step& step, std::vector<std::string>& tokens) {
  if (step.kind == Step::Kind::strip && step.what.empty()) {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {all};
    return;
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    switch (step.kind) {
      case Step::Kind::byte_letters:
        if (auto bytes = bytes_of_letters(token)) token = std::move(*bytes);
        break;
      case Step::Kind::replace:
        token = replaced(token, step.what, step.with);
        break;
      case Step::Kind::bytes:
        if (char byte = 0; read_byte(token, &byte)) token = std::string(1, byte);
        break;
      case Step::Kind::strip:
        token = stripped(token, step.what, step.left, step.right);
        break;
      case Step::Kind::suffix:
        token = replaced(token, step.what, i + 1 < tokens.size() ? " " : "");
        break;
      case Step::Kind::word_pieces:
        if (i == 0) break;
        token = token.starts_with(step.what) ? token.substr(step.what.size()) : " " + token;
        break;
      case Step::Kind::metaspace:
        if (i == 0 && step.first_space && token.starts_with(step.what)) token.erase(0, step.what.size());
        token = replaced(token, step.what, " ");
        break;
    }
  }
}

std::string TokenDecoder::join(const std::vector<std::string>& tokens) const {
  std::vector<std::string> parts = tokens;
  for (const Step& step : steps_) apply(step, parts);
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) out += (spaces_between_ && i > 0 ? " " : "") + parts[i];
  return out;
}

}  // namespace hetsynth
