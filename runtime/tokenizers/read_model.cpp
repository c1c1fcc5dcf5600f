#include "runtime/tokenizers/read_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/suggest.h"
#include "runtime/tokenizers/bpe_model.h"
#include "runtime/tokenizers/word_piece_model.h"

namespace hetsynth {
namespace {

/// A string, or "" where the file has null or nothing.
std::string string_or_none(const JsonReader& json, std::string_view key) {
  if (!json.has(key) || json.member(key).is_null()) return {};
  return json.member(key).string();
}

bool flag(const JsonReader& json, std::string_view key) { return json.has(key) && json.member(key).boolean(); }

Vocabulary read_vocabulary(const JsonReader& json) {
  Vocabulary out;
  std::vector<bool> taken;
  for (const JsonReader& entry : json.members()) {
    const int64_t id = entry.integer(0, most_tokens - 1);
    if (static_cast<size_t>(id) >= taken.size()) taken.resize(static_cast<size_t>(id) + 1);
    if (taken[static_cast<size_t>(id)])
      entry.fail("two tokens have the same id", "ids that differ", fmt::format("{} a second time", id));
    taken[static_cast<size_t>(id)] = true;
    out.emplace(entry.key(), static_cast<int32_t>(id));
  }
  if (out.empty()) json.fail("the vocabulary is empty");
  return out;
}

/// "a b", or ["a", "b"].
std::pair<std::string, std::string> read_merge(const JsonReader& json) {
  if (json.is_array()) {
    const std::vector<JsonReader> both = json.elements();
    if (both.size() != 2) json.fail("a merge is of two tokens", "2", fmt::format("{}", both.size()));
    return {both[0].string(), both[1].string()};
  }
  const std::string& text = json.string();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    json.fail("a merge is two tokens with a space between them", "\"a b\"", quote(text));
  return {text.substr(0, space), text.substr(space + 1)};
}

std::string read_unknown(const JsonReader& json, const Vocabulary& vocabulary) {
  std::string out = string_or_none(json, "unk_token");
  if (!out.empty() && !vocabulary.contains(out))
    json.member("unk_token").fail("the unknown token is not in the vocabulary", "", quote(out));
  return out;
}

std::unique_ptr<TokenModel> read_bpe(const JsonReader& json, bool byte_level) {
  json.check_members({"vocab", "merges"}, {"type", "dropout", "unk_token", "continuing_subword_prefix",
                                           "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges"});
  if (json.has("dropout") && !json.member("dropout").is_null() && json.member("dropout").number(0, 1) > 0) {
    json.member("dropout").fail("merges that are left out at random are not supported", "null", "",
                                "set it to null to encode every text in one way");
  }
  BpeSettings settings;
  settings.vocabulary = read_vocabulary(json.member("vocab"));
  const std::vector<JsonReader> merges = json.member("merges").elements();
  settings.merges.reserve(merges.size());
  for (const JsonReader& merge : merges) settings.merges.push_back(read_merge(merge));
  settings.byte_level = byte_level;
  settings.ignore_merges = flag(json, "ignore_merges");
  settings.byte_fallback = flag(json, "byte_fallback");
  settings.fuse_unknown = flag(json, "fuse_unk");
  settings.unknown = read_unknown(json, settings.vocabulary);
  settings.prefix = string_or_none(json, "continuing_subword_prefix");
  settings.suffix = string_or_none(json, "end_of_word_suffix");
  try {
    return std::make_unique<BpeModel>(std::move(settings));
  } catch (const MergeFlaw& flaw) {
    merges[flaw.merge].fail("a token of this merge is not in the vocabulary", "tokens of the vocabulary",
                            quote(flaw.token));
  }
}

std::unique_ptr<TokenModel> read_word_pieces(const JsonReader& json) {
  json.check_members({"vocab", "unk_token"}, {"type", "continuing_subword_prefix", "max_input_chars_per_word"});
  Vocabulary vocabulary = read_vocabulary(json.member("vocab"));
  const std::string unknown = read_unknown(json, vocabulary);
  if (unknown.empty()) json.member("unk_token").fail("WordPiece needs a token for words that it does not know");
  WordPieceSettings settings;
  settings.unknown = vocabulary.find(unknown)->second;
  settings.vocabulary = std::move(vocabulary);
  settings.prefix = json.has("continuing_subword_prefix") ? string_or_none(json, "continuing_subword_prefix") : "##";
  if (json.has("max_input_chars_per_word"))
    settings.longest_word = json.member("max_input_chars_per_word").integer(1, 1 << 20);
  return std::make_unique<WordPieceModel>(std::move(settings));
}

}  // namespace

std::unique_ptr<TokenModel> read_token_model(const JsonReader& json, bool byte_level) {
  // Files of old have no "type".
  const std::string type = json.has("type")        ? json.member("type").string()
                           : json.has("merges")    ? "BPE"
                           : json.has("unk_id")    ? "Unigram"
                           : json.has("unk_token") ? "WordPiece"
                                                   : "";
  if (type == "BPE") return read_bpe(json, byte_level);
  if (type == "WordPiece") return read_word_pieces(json);
  (json.has("type") ? json.member("type") : json)
      .fail("this kind of model is not supported", "BPE or WordPiece", quote(type),
            type == "Unigram" ? "give the model file of SentencePiece from which it was made (spiece.model)"
                              : "take a tokenizer.json of BPE or WordPiece, or a model file of SentencePiece");
}

}  // namespace hetsynth
