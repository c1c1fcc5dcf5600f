// Reads a tokenizer.json, the format of PyPI's tokenizers. Truncation and padding are left to whoever trains.
#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/suggest.h"
#include "runtime/tokenizers/json_tokenizer.h"
#include "runtime/tokenizers/read_model.h"

namespace hetsynth {
namespace {

int32_t read_id(const JsonReader& json) { return static_cast<int32_t>(json.integer(0, most_tokens - 1)); }

/// A member that may be left out or null.
template <class Part>
Part part_of(const JsonReader& json, std::string_view key) {
  return json.has(key) ? Part(json.member(key)) : Part();
}

void read_added(const JsonReader& json, TokenizerParts& parts) {
  for (const JsonReader& entry : json.elements()) {
    entry.check_members({"id", "content"}, {"single_word", "lstrip", "rstrip", "normalized", "special"});
    const auto flag = [&](const char* key) { return entry.has(key) && entry.member(key).boolean(); };
    AddedToken token{entry.member("content").string(), read_id(entry.member("id")), flag("lstrip"), flag("rstrip")};
    if (token.text.empty()) entry.member("content").fail("an added token is empty");
    if (flag("single_word")) entry.member("single_word").fail("tokens that are whole words are not supported", "false");
    if (const auto id = parts.model->id_of(token.text); id && *id != token.id) {
      entry.member("id").fail("the vocabulary has this token under another id", fmt::format("{}", *id),
                              fmt::format("{}", token.id));
    }
    const std::string content = token.text;
    if (flag("normalized")) token.text = parts.normalizer.apply(content);
    const auto [same, added] = parts.added_texts.emplace(token.id, token.text);
    if (!added && same->second != token.text)
      entry.member("id").fail("two added tokens have the same id", "", fmt::format("{}", token.id));
    parts.added_ids.insert_or_assign(content, token.id);
    if (!token.text.empty()) (flag("normalized") ? parts.added_normalized : parts.added).push_back(std::move(token));
  }
}

/// ["</s>", 2]
int32_t read_pair_id(const JsonReader& json) {
  const std::vector<JsonReader> both = json.elements();
  if (both.size() != 2) json.fail("a token and its id are expected");
  return read_id(both[1]);
}

void read_template(const JsonReader& json, TokenizerParts& parts) {
  std::vector<int32_t>* ids = &parts.before;
  for (const JsonReader& part : json.member("single").elements()) {
    if (part.has("Sequence")) {
      ids = &parts.after;
      continue;
    }
    const JsonReader name = part.member("SpecialToken").member("id");
    bool found = false;
    for (const JsonReader& token : json.member("special_tokens").members()) {
      if (token.key() != name.string()) continue;
      found = true;
      for (const JsonReader& id : token.member("ids").elements()) ids->push_back(read_id(id));
    }
    if (!found) name.fail("there is no such special token", "", quote(name.string()));
  }
}

void read_post_processor(const JsonReader& json, TokenizerParts& parts) {
  if (json.is_null()) return;
  const std::string& type = json.member("type").string();
  if (type == "ByteLevel") return;  // speaks of places in the text alone
  if (type == "Sequence") {
    for (const JsonReader& part : json.member("processors").elements()) read_post_processor(part, parts);
  } else if (type == "TemplateProcessing") {
    read_template(json, parts);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    parts.before.push_back(read_pair_id(json.member("cls")));
    parts.after.push_back(read_pair_id(json.member("sep")));
  } else {
    json.member("type").fail("this kind of post-processor is not supported",
                             "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel or Sequence",
                             quote(type));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& file) {
  const JsonNode root = parse_json(text, file, "tokenizer", tokenizer_json_limits);
  const JsonReader json(root, file, "");
  if (!json.has("model")) {
    json.fail("this is no tokenizer.json", "an object with the member \"model\"", "",
              "give the tokenizer.json of PyPI's tokenizers, or a model of SentencePiece");
  }
  json.check_members({"model"}, {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                                 "post_processor", "decoder"});
  TokenizerParts parts;
  parts.normalizer = part_of<Normalizer>(json, "normalizer");
  parts.pre_tokenizer = part_of<PreTokenizer>(json, "pre_tokenizer");
  parts.model = read_token_model(json.member("model"), parts.pre_tokenizer.byte_level());
  parts.decoder = part_of<TokenDecoder>(json, "decoder");
  if (json.has("added_tokens")) read_added(json.member("added_tokens"), parts);
  if (json.has("post_processor")) read_post_processor(json.member("post_processor"), parts);
  return std::make_unique<JsonTokenizer>(std::move(parts));
}

}  // namespace hetsynth
