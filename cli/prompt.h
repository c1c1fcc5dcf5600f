// Texts to the tokens that a language model reads, and back, as the command line asks for it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dsl/transform/language_model.h"
#include "runtime/processes/job.h"
#include "runtime/token_files/token_origin.h"
#include "runtime/tokenizers/text_stream.h"

namespace hetsynth::cli {

struct PromptOptions {
  std::string text;          ///< "-": what stands on standard input
  std::string tokenizer;     ///< file of a tokenizer, "bytes", or empty: bytes where the model's tokens are no more
  bool around_text = false;  ///< begin with what the tokenizer's file has before texts
};

struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// What a model's tokens are.
class TokenCodec {
 public:
  /// Throws UserError if the model reads other tokens than the tokenizer has, or if it is not said which they are.
  /// `trained_on`: what made the tokens of the checkpoint, for the message.
  TokenCodec(const PromptOptions& options, const LanguageModel& model, const TokenOrigin& trained_on);

  /// The prompt's tokens. Of several processes the first reads standard input. Throws UserError if there are none, or
  /// if the text cannot be encoded.
  Prompt prompt(const PromptOptions& options, Job* job) const;
  /// The token that is spelled so. Throws UserError that names `option` if there is none.
  int32_t token(const std::string& option, const std::string& spelling) const;
  /// The largest token and one.
  int64_t tokens() const { return tokenizer_ ? tokenizer_->vocabulary() : 256; }
  TextStream stream() const { return TextStream(tokenizer_.get()); }
  bool reads_bytes() const { return !tokenizer_; }
  TokenOrigin origin() const { return tokenizer_ ? origin_of(*tokenizer_, file_) : origin_of_bytes(); }

 private:
  std::vector<int32_t> encode(const PromptOptions& options, const std::string& text) const;

  std::unique_ptr<Tokenizer> tokenizer_;  ///< null: every byte is a token
  std::string file_;
  int64_t vocabulary_;  ///< of the model
};

}  // namespace hetsynth::cli
