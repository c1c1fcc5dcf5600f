// The part of a tokenizer that turns a word into tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Const members may be called by several threads at once.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the ids of a word.
  virtual void encode_word(std::string_view word, std::vector<int32_t>& ids) const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// The token's text as the file spells it; empty for ids that do not exist.
  virtual const std::string& token(int32_t id) const = 0;
  virtual int64_t vocabulary() const = 0;
  /// "BPE".
  virtual std::string name() const = 0;
};

}  // namespace hetsynth
