#include "runtime/tokenizers/json_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tokenizers/word_cache.h"

namespace hetsynth {

class JsonTokenizer::Encoder : public TokenEncoder {
 public:
  explicit Encoder(const JsonTokenizer& tokenizer)
      : tokenizer_(tokenizer), pattern_(tokenizer.parts_.pre_tokenizer.only_words()) {}

  void encode(std::string_view text, bool first, bool more, std::vector<int32_t>& ids) override {
    for (const AddedTokens::Part& part : tokenizer_.added_.split(text)) {
      const bool last = part.text.data() + part.text.size() == text.data() + text.size();
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        encode_between(part.text, first && part.text.data() == text.data(), more && last, ids);
      }
    }
  }

 private:
  void encode_between(std::string_view text, bool first, bool more, std::vector<int32_t>& ids) {
    const Normalizer& normalizer = tokenizer_.parts_.normalizer;
    const std::string made = normalizer.empty() ? std::string() : normalizer.apply(std::string(text));
    const std::string_view now = normalizer.empty() ? text : made;
    for (const AddedTokens::Part& part : tokenizer_.added_normalized_.split(now)) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const bool last = part.text.data() + part.text.size() == now.data() + now.size();
      const bool begins = first && part.text.data() == now.data();
      if (pattern_) {
        for (size_t at = 0; at < part.text.size();) {
          const size_t end = pattern_->end_of_word(part.text, at, more && last);
          encode_word(part.text.substr(at, end - at), ids);
          at = end;
        }
      } else {
        for (const Piece& word : tokenizer_.parts_.pre_tokenizer.words(part.text, begins)) encode_word(word.text, ids);
      }
    }
  }

  void encode_word(std::string_view word, std::vector<int32_t>& ids) {
    if (cache_.find(word, ids)) return;
    const size_t begin = ids.size();
    tokenizer_.parts_.model->encode_word(word, ids);
    cache_.put(word, ids.data() + begin, ids.size() - begin);
  }

  const JsonTokenizer& tokenizer_;
  std::optional<unicode::WordPattern> pattern_;
  WordCache cache_;
};

JsonTokenizer::JsonTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), added_(parts_.added), added_normalized_(parts_.added_normalized) {
  vocabulary_ = parts_.model->vocabulary();
  for (const auto& [text, id] : parts_.added_ids) vocabulary_ = std::max<int64_t>(vocabulary_, id + int64_t{1});
}

std::unique_ptr<TokenEncoder> JsonTokenizer::encoder() const { return std::make_unique<Encoder>(*this); }

std::string JsonTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    const auto added = parts_.added_texts.find(id);
    const std::string& token = added == parts_.added_texts.end() ? parts_.model->token(id) : added->second;
    if (!token.empty()) tokens.push_back(token);
  }
  return parts_.decoder.join(tokens);
}

std::string JsonTokenizer::spelled(int32_t id) const {
  const auto added = parts_.added_texts.find(id);
  return added == parts_.added_texts.end() ? parts_.model->token(id) : added->second;
}

std::optional<int32_t> JsonTokenizer::id_of(std::string_view token) const {
  const auto added = parts_.added_ids.find(std::string(token));
  return added == parts_.added_ids.end() ? parts_.model->id_of(token) : std::optional(added->second);
}

bool JsonTokenizer::cuts_at_lines() const {
  return parts_.pre_tokenizer.only_words() && parts_.normalizer.works_by_line() && added_.stays_in_line() &&
         added_normalized_.stays_in_line();
}

std::string JsonTokenizer::description() const {
  return fmt::format("{} of {} tokens", parts_.model->name(), vocabulary_);
}

}  // namespace hetsynth
