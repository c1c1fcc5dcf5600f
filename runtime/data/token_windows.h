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
  /// "GPT-2 tokens a.bin, 1 file, 9 tokens"; what stands before the path is `kind`.
  virtual std::string description() const = 0;
  virtual std::string kind() const = 0;
  /// Which tokenizer made them, if that is known.
  virtual TokenOrigin origin() const { return {}; }
  /// See Dataset::traits.
  virtual std::vector<DataTrait> traits() const { return {}; }
  /// "bytes" or "tokens".
  virtual std::string unit() const = 0;
  /// What to do if a token is beyond the vocabulary.
  virtual std::string mend() const = 0;
};

/// Opens a token file: an array of NumPy, or llm.c's. Throws UserError for anything else.
std::unique_ptr<TokenSequence> open_token_sequence(const std::string& path);

/// Several sequences as one, in which windows go from one to the next. `path` is what the user named; the parts agree
/// in their traits.
std::unique_ptr<TokenSequence> joined_tokens(std::vector<std::unique_ptr<TokenSequence>> parts,
                                             const std::string& path);

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
  std::vector<DataTrait> traits() const override { return sequence_->traits(); }
  TokenOrigin origin() const override { return sequence_->origin(); }

 private:
  std::unique_ptr<TokenSequence> sequence_;
};

}  // namespace hetsynth
