#include "cli/prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "dsl/base/error.h"
#include "dsl/base/suggest.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth::cli {
namespace {

/// The word for --tokenizer that says that there is none.
constexpr const char* bytes_word = "bytes";
constexpr int64_t byte_values = 256;

[[noreturn]] void refuse_tokenizer(const std::string& message, const std::string& expected, const std::string& found,
                                   const std::string& mend, const std::string& file = "") {
  throw UserError(
      {.where = {file}, .tag = "--tokenizer", .message = message, .expected = expected, .found = found, .mend = mend},
      file.empty() ? ExitCode::usage : ExitCode::invalid_input);
}

[[noreturn]] void refuse_prompt(const std::string& message, const std::string& expected, const std::string& found,
                                const std::string& mend) {
  throw UserError({.tag = "--prompt", .message = message, .expected = expected, .found = found, .mend = mend},
                  ExitCode::usage);
}

std::string standard_input(Job* job) {
  std::string text;
  if (!job || job->leads()) text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  return job ? job->exchange(text).front() : text;
}

}  // namespace

TokenCodec::TokenCodec(const PromptOptions& options, const LanguageModel& model, const TokenOrigin& trained_on)
    : file_(options.tokenizer), vocabulary_(model.vocabulary) {
  if (options.tokenizer.empty() || options.tokenizer == bytes_word) {
    if (options.around_text)
      refuse_tokenizer("--around-text asks for what a tokenizer's file has around texts", "--tokenizer FILE", "none",
                       "leave --around-text out");
    if (options.tokenizer.empty() && !model.bytes && model.vocabulary > byte_values)
      refuse_tokenizer(
          "the model reads tokens, and it is not said which text they stand for",
          "--tokenizer FILE: the one that made the tokens it was trained on",
          fmt::format("a vocabulary of {} and no tokenizer{}", model.vocabulary,
                      trained_on.known() ? "; the checkpoint's tokens are those of " + text(trained_on) : ""),
          "if it was trained on bytes of text all the same, say --tokenizer bytes");
    return;
  }
  if (model.bytes)
    refuse_tokenizer("the model reads the bytes of texts, which have no tokenizer", "no --tokenizer", options.tokenizer,
                     "leave --tokenizer out; models of tokens read token_batch");
  tokenizer_ = open_tokenizer(options.tokenizer);
  if (tokenizer_->vocabulary() > model.vocabulary)
    refuse_tokenizer("the tokenizer has tokens that the model cannot read",
                     fmt::format("at most {} tokens", model.vocabulary), tokenizer_->description(),
                     "take the tokenizer of the model's training data, or the model's own --set options",
                     options.tokenizer);
}

std::vector<int32_t> TokenCodec::encode(const PromptOptions& options, const std::string& text) const {
  if (!tokenizer_) {
    std::vector<int32_t> tokens;
    for (const unsigned char byte : text) tokens.push_back(byte);
    return tokens;
  }
  std::vector<int32_t> tokens = options.around_text ? tokenizer_->before_text() : std::vector<int32_t>();
  const std::vector<int32_t> encoded = tokenizer_->encode(text);
  tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  return tokens;
}

Prompt TokenCodec::prompt(const PromptOptions& options, Job* job) const {
  Prompt out;
  out.text = options.text == "-" ? standard_input(job) : options.text;
  const size_t invalid = tokenizer_ ? unicode::first_invalid(out.text) : std::string::npos;
  if (invalid != std::string::npos)
    refuse_prompt("the text is no UTF-8, which tokenizers read", "UTF-8",
                  fmt::format("byte 0x{:02X} at byte {}", static_cast<unsigned char>(out.text[invalid]), invalid),
                  "convert it: iconv -f LATIN1 -t UTF-8");
  out.tokens = encode(options, out.text);
  if (out.tokens.empty())
    refuse_prompt("there is nothing to go on with", "a text of one token at least",
                  out.text.empty() ? "an empty prompt" : "a text that the tokenizer gives no token",
                  tokenizer_ ? "--around-text begins with what the tokenizer's file has before texts, if anything"
                             : "a line feed stands for the beginning of a line: --prompt $'\\n'");
  const auto beyond = std::ranges::find_if(out.tokens, [&](int32_t token) { return token >= vocabulary_; });
  if (beyond != out.tokens.end())
    refuse_prompt(fmt::format("byte {} is no token of the model", beyond - out.tokens.begin()),
                  fmt::format("bytes below {}", vocabulary_), fmt::format("{}", *beyond),
                  "leave such bytes out, or say which --tokenizer the model was trained with");
  return out;
}

int32_t TokenCodec::token(const std::string& option, const std::string& spelling) const {
  if (!tokenizer_) {
    if (spelling.size() == 1) return static_cast<unsigned char>(spelling.front());
    throw UserError({.tag = option,
                     .message = "the model's tokens are bytes",
                     .expected = "one byte",
                     .found = quote(spelling),
                     .mend = fmt::format("a line feed: {} $'\\n'", option)},
                    ExitCode::usage);
  }
  if (const auto id = tokenizer_->id_of(spelling)) return *id;
  throw UserError({.where = {file_},
                   .tag = option,
                   .message = "the tokenizer has no such token",
                   .found = quote(spelling),
                   .mend = "name one of its tokens, such as <|endoftext|> of GPT-2's"});
}

}  // namespace hetsynth::cli
