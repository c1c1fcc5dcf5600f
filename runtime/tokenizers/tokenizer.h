// Text to the numbers that a model reads, and back.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Encodes for one thread, which remembers words that it has seen.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  /// Appends the ids of `text`, which is valid UTF-8. `more`: this is a part of a longer text, ends in a line feed, and
  /// goes on with something that is no space; `first`: nothing of the text was before it.
  virtual void encode(std::string_view text, bool first, bool more, std::vector<int32_t>& ids) = 0;
};

/// A tokenizer. Const members may be called by several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::unique_ptr<TokenEncoder> encoder() const = 0;
  /// The bytes that ids stand for, special tokens as they are written; ids that do not exist stand for nothing.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// The largest id and one: what a model's vocabulary has to be at least.
  virtual int64_t vocabulary() const = 0;
  /// The id of a token, as the file spells it; none if there is no such token.
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  /// A token as the file spells it; empty for ids that do not exist.
  virtual std::string spelled(int32_t id) const = 0;
  /// What the file puts before and after every text ("<s>").
  virtual std::vector<int32_t> before_text() const { return {}; }
  virtual std::vector<int32_t> after_text() const { return {}; }
  /// Whether a text may be cut after any line feed that something other than space follows: the ids of the parts are
  /// those of the whole.
  virtual bool cuts_at_lines() const { return false; }
  /// "byte-level BPE of 50257 tokens".
  virtual std::string description() const = 0;

  /// All of a text at once. Throws UserError if it is no UTF-8.
  std::vector<int32_t> encode(std::string_view text) const;
};

/// Opens a tokenizer.json, or a model of SentencePiece. Throws UserError naming what is wrong or not supported, and
/// where.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);
/// The same from the text of a tokenizer.json; `file` is named in messages.
std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& file);

}  // namespace hetsynth
