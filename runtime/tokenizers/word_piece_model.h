// WordPiece (Schuster and Nakajima 2012; Devlin et al. 2019): the longest token that a word begins with, then the
// longest that the rest begins with.
#pragma once
#include <string>
#include <vector>

#include "runtime/tokenizers/bpe_model.h"
#include "runtime/tokenizers/token_model.h"

namespace hetsynth {

struct WordPieceSettings {
  Vocabulary vocabulary;
  int32_t unknown = 0;         ///< stands for a word that tokens do not make up
  std::string prefix = "##";   ///< of tokens that do not begin a word
  int64_t longest_word = 100;  ///< in code points; longer ones are unknown
};

class WordPieceModel : public TokenModel {
 public:
  explicit WordPieceModel(WordPieceSettings settings);
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  const std::string& token(int32_t id) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string name() const override { return "WordPiece"; }

 private:
  WordPieceSettings settings_;
  std::vector<std::string> tokens_;  ///< by id
};

}  // namespace hetsynth
