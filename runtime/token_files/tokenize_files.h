// Text files become a token file, and counts of words, by several threads.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/token_files/bpe_training.h"
#include "runtime/token_files/text_blocks.h"
#include "runtime/token_files/token_file.h"
#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

/// Told now and then: bytes read, bytes in all, tokens so far.
using TokenizeProgress = std::function<void(int64_t, int64_t, int64_t)>;

struct TokenizeOptions {
  int threads = 1;
  bool around_text = false;                 ///< put before and after every file what the tokenizer has for that
  std::optional<int32_t> end_of_text = {};  ///< after every file
  bool replace_invalid = false;             ///< U+FFFD for what is no UTF-8
  TokenizeProgress progress = {};
};

struct TokenizeResult {
  int64_t files = 0, bytes = 0, tokens = 0;
  int32_t largest = -1;  ///< id
};

/// Encodes files, each as a text of its own, and writes their tokens in order. Throws UserError for text that is no
/// UTF-8; the writer's file is not placed.
TokenizeResult tokenize_files(const Tokenizer& tokenizer, std::vector<TextFile> files, TokenFileWriter& writer,
                              const TokenizeOptions& options);

/// Words of files. Throws as tokenize_files does.
WordCounts count_words_of_files(const unicode::WordPattern& pattern, std::vector<TextFile> files,
                                const TokenizeOptions& options);

}  // namespace hetsynth
