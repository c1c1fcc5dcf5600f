// Windows of a long sequence of tokens.
#pragma once
#include <memory>
#include <string>

#include "runtime/data/dataset.h"

namespace hetsynth {

/// Tokens one after the other. Const members may be called by several threads at once.
class TokenSequence {
 public:
  virtual ~TokenSequence() = default;
  virtual int64_t size() const = 0;
  /// Tokens [offset, offset + out.size()). Throws UserError if the data cannot be read any more.
  virtual void read(int64_t offset, std::span<int64_t> out) const = 0;
  /// File of a token, and "byte 17".
  virtual std::pair<std::string, std::string> place_of(int64_t offset) const = 0;
  virtual std::string description() const = 0;
  /// "bytes" or "tokens".
  virtual std::string unit() const = 0;
  /// What to do if a token is beyond the vocabulary.
  virtual std::string mend() const = 0;
};

/// Opens a token file: an array of NumPy, or llm.c's. Throws UserError for anything else.
std::unique_ptr<TokenSequence> open_token_sequence(const std::string& path);

/// Fills inputs of windows. Every epoch cuts the sequence into windows of the input's length, all used once; the grid
/// of windows is shifted by what is left over.
class TokenWindows : public Dataset {
 public:
  /// Throws UserError naming `path` if the sequence is shorter than a window and the token after it.
  TokenWindows(std::unique_ptr<TokenSequence> sequence, const std::vector<const Node*>& inputs,
               const std::string& path);
  int64_t samples(const Node& input) const override;
  void read(const Node& input, SampleId sample, int64_t inside, int64_t count, std::span<std::byte> out) const override;
  std::string description() const override { return sequence_->description(); }

 private:
  std::unique_ptr<TokenSequence> sequence_;
};

}  // namespace hetsynth
