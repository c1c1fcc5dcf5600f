// Byte-pair encoding (Gage 1994; Sennrich et al. 2016): the pair of tokens whose merge has the least rank is replaced
// by one, again and again.
#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/tokenizers/pair_table.h"
#include "runtime/tokenizers/token_model.h"

namespace hetsynth {

/// Finds strings by parts of them.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Vocabulary = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

/// What a file says of a BPE model. Ids are not negative.
struct BpeSettings {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank
  bool byte_level = false;                                  ///< words are bytes, which tokens spell with byte_letters
  bool ignore_merges = false;                               ///< a word that is a token is that token
  bool byte_fallback = false;                               ///< "<0x0A>" stands for a byte of what is no token
  bool fuse_unknown = false;   ///< one unknown token for several code points that are no token
  std::string unknown;         ///< the token of these; empty: they are left out
  std::string prefix, suffix;  ///< of what is not a word's first letter, of a word's last letter
};

/// A merge that cannot be.
struct MergeFlaw {
  size_t merge = 0;
  std::string token;  ///< is not in the vocabulary
};

class BpeModel : public TokenModel {
 public:
  /// Throws MergeFlaw. An unknown token must be in the vocabulary.
  explicit BpeModel(BpeSettings settings);

  void encode_word(std::string_view word, std::vector<int32_t>& ids) const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  const std::string& token(int32_t id) const override;
  int64_t vocabulary() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string name() const override { return settings_.byte_level ? "byte-level BPE" : "BPE"; }

 private:
  int32_t letter_id(std::string_view letter, bool first, bool last) const;
  void letters_of(std::string_view word, std::vector<int32_t>& ids) const;
  void merge_few(std::vector<int32_t>& ids, size_t begin) const;
  void merge_many(std::vector<int32_t>& ids, size_t begin) const;

  BpeSettings settings_;
  std::vector<std::string> tokens_;  ///< by id
  Vocabulary whole_;                 ///< with byte_level and ignore_merges: ids by bytes
  PairTable pairs_;
  int32_t unknown_ = -1;
  std::array<std::array<int32_t, 256>, 4> byte_ids_{};  ///< by first + 2 last, and byte; -1: no token
  std::array<int32_t, 256> fallback_{};                 ///< ids of "<0x00>" to "<0xFF>"; -1: no token
};

}  // namespace hetsynth
