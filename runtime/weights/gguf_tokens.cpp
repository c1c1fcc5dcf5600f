#include "runtime/weights/gguf_tokens.h"

#include <fmt/format.h>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "runtime/tokenizers/read_model.h"
#include "runtime/tokenizers/sentence_piece.h"
#include "runtime/tokenizers/tokenizer.h"
#include "runtime/unicode/word_patterns.h"

namespace hetsynth {
namespace {

/// Types of tokens, as llama.cpp numbers them.
enum class TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Tokens {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;

  void put(size_t id, const std::string& text, TokenType type) {
    if (id >= texts.size()) fill(id + 1);
    texts[id] = text, types[id] = int32_t(type);
  }
  /// Ids that nothing stands under are there all the same.
  void fill(size_t count) {
    for (size_t id = texts.size(); id < count; ++id) texts.push_back(fmt::format("[PAD{}]", id));
    types.resize(texts.size(), int32_t(TokenType::unused));
    scores.resize(texts.size(), 0);
  }
};

[[noreturn]] void refuse_tokens(const std::string& path, const std::string& message, const std::string& expected,
                                const std::string& found, const std::string& mend) {
  throw UserError({{path, 0, 0}, "gguf", message, expected, found, mend});
}

/// An id below 0: there is none.
void add_special(GgufEntries& out, const std::string& key, int32_t id) {
  if (id >= 0) out.emplace_back("tokenizer.ggml." + key, uint32_t(id));
}

void finish(const std::string& path, Tokens& tokens, int64_t wanted, GgufEntries& out) {
  if (int64_t(tokens.texts.size()) > wanted)
    refuse_tokens(path, "the tokenizer has more tokens than the model", fmt::format("at most {} tokens", wanted),
                  fmt::format("{}", tokens.texts.size()),
                  "name the tokenizer that the model's texts were written with");
  tokens.fill(size_t(wanted));
  out.emplace_back("tokenizer.ggml.tokens", std::move(tokens.texts));
  out.emplace_back("tokenizer.ggml.token_type", std::move(tokens.types));
}

/// What llama.cpp calls the way that a tokenizer.json cuts texts into words.
std::string words_of(const JsonReader& pre_tokenizer, const std::string& path) {
  const auto unknown_way = [&]() {
    refuse_tokens(path, "llama.cpp is not known to cut texts into words as this tokenizer does",
                  "the words of GPT-2, of Llama 3 or of Qwen 2", "another pre_tokenizer",
                  "--metadata tokenizer.ggml.pre=NAME says how llama.cpp calls it");
  };
  if (pre_tokenizer.is_null()) unknown_way();
  const std::string& type = pre_tokenizer.member("type").string();
  if (type == "ByteLevel") return "gpt-2";
  if (type != "Sequence") unknown_way();
  const std::vector<JsonReader> steps = pre_tokenizer.member("pretokenizers").elements();
  if (steps.size() != 2 || steps[0].member("type").string() != "Split" || !steps[0].member("pattern").has("Regex"))
    unknown_way();
  const auto pattern = unicode::word_pattern(steps[0].member("pattern").member("Regex").string());
  if (!pattern || pattern->whole_end_space) unknown_way();
  if (pattern->family == unicode::WordPattern::Family::gpt2) return "gpt-2";
  return pattern->digits == 3 ? "llama-bpe" : "qwen2";
}

GgufEntries byte_level(const JsonReader& json, const Tokenizer& tokenizer, const std::string& path, int64_t wanted,
                       bool pre_is_given) {
  const JsonReader model = json.member("model");
  if (!tokenizer.description().starts_with("byte-level BPE"))
    refuse_tokens(path, "this kind of tokenizer has no form in a GGUF file",
                  "byte-level BPE in a tokenizer.json, or a model of SentencePiece that merges",
                  tokenizer.description(), "name the tokenizer.model that it was made of, if there is one");
  Tokens tokens;
  for (const JsonReader& token : model.member("vocab").members())
    tokens.put(size_t(token.integer(0, tokenizer_json_limits.values)), token.key(), TokenType::normal);
  if (json.has("added_tokens"))
    for (const JsonReader& token : json.member("added_tokens").elements())
      tokens.put(
          size_t(token.member("id").integer(0, tokenizer_json_limits.values)), token.member("content").string(),
          token.has("special") && token.member("special").boolean() ? TokenType::control : TokenType::user_defined);
  std::vector<std::string> merges;
  for (const JsonReader& merge : model.member("merges").elements())
    merges.push_back(merge.is_string() ? merge.string()
                                       : merge.elements().at(0).string() + " " + merge.elements().at(1).string());
  GgufEntries out{{"tokenizer.ggml.model", std::string("gpt2")}};
  if (!pre_is_given) out.emplace_back("tokenizer.ggml.pre", words_of(json.member("pre_tokenizer"), path));
  finish(path, tokens, wanted, out);
  out.emplace_back("tokenizer.ggml.merges", std::move(merges));
  const std::vector<int32_t> before = tokenizer.before_text(), after = tokenizer.after_text();
  if (!before.empty()) add_special(out, "bos_token_id", before.front());
  out.emplace_back("tokenizer.ggml.add_bos_token", !before.empty());
  int32_t end = after.empty() ? -1 : after.back();
  for (const char* name : {"<|end_of_text|>", "<|endoftext|>", "</s>"})
    if (end < 0) end = tokenizer.id_of(name).value_or(-1);
  add_special(out, "eos_token_id", end);
  return out;
}

GgufEntries merged_pieces(const std::string& bytes, const std::string& path, int64_t wanted) {
  const SentencePieces model = sentence_pieces(bytes, path);
  if (!model.merges_by_score)
    refuse_tokens(path, "this kind of tokenizer has no form in a GGUF file of a Llama",
                  "a model of SentencePiece that merges (spm_train --model_type=bpe)", "another kind", "");
  Tokens tokens;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieces::Piece& piece = model.pieces[id];
    using enum TokenType;
    constexpr TokenType types[] = {normal, unknown, control, unused, byte};
    tokens.put(id, piece.text, types[size_t(piece.kind)]);
    tokens.scores[id] = piece.score;
  }
  GgufEntries out{{"tokenizer.ggml.model", std::string("llama")}};
  finish(path, tokens, wanted, out);
  out.emplace_back("tokenizer.ggml.scores", std::move(tokens.scores));
  add_special(out, "bos_token_id", model.bos);
  add_special(out, "eos_token_id", model.eos);
  return out;
}

}  // namespace

GgufEntries gguf_tokens(const std::string& path, int64_t tokens, bool pre_is_given) {
  const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(path);
  const std::string bytes = read_file(path, "tokenizer", longest_tokenizer_file);
  if (looks_like_sentence_piece(bytes)) return merged_pieces(bytes, path, tokens);
  const JsonNode root = parse_json(bytes, path, "tokenizer", tokenizer_json_limits);
  return byte_level(JsonReader(root, path, ""), *tokenizer, path, tokens, pre_is_given);
}

GgufEntries gguf_without_tokens() { return {{"tokenizer.ggml.model", std::string("none")}}; }

}  // namespace hetsynth
