// A tokenizer put together from the parts that a tokenizer.json describes.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizers/added_tokens.h"
#include "runtime/tokenizers/normalizer.h"
#include "runtime/tokenizers/pre_tokenizer.h"
#include "runtime/tokenizers/token_decoder.h"
#include "runtime/tokenizers/token_model.h"
#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  TokenDecoder decoder;
  std::vector<AddedToken> added;             ///< found in the text as it is
  std::vector<AddedToken> added_normalized;  ///< spelled as the normalizer leaves them, found in what it leaves
  std::unordered_map<std::string, int32_t> added_ids;    ///< of all of them, as the file spells them
  std::unordered_map<int32_t, std::string> added_texts;  ///< what they stand for: as they are found
  std::vector<int32_t> before, after;                    ///< put around a text
};

/// By PyPI's tokenizers: added tokens first, then the normalizer, words, and the model.
class JsonTokenizer : public Tokenizer {
 public:
  explicit JsonTokenizer(TokenizerParts parts);
  std::unique_ptr<TokenEncoder> encoder() const override;
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocabulary() const override { return vocabulary_; }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string spelled(int32_t id) const override;
  std::vector<int32_t> before_text() const override { return parts_.before; }
  std::vector<int32_t> after_text() const override { return parts_.after; }
  bool cuts_at_lines() const override;
  std::string description() const override;

 private:
  class Encoder;
  TokenizerParts parts_;
  AddedTokens added_, added_normalized_;
  int64_t vocabulary_ = 0;
};

}  // namespace hetsynth
