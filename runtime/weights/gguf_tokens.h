// A tokenizer as GGUF files hold it.
#pragma once
#include <string>

#include "runtime/weights/gguf.h"

namespace hetsynth {

/// The entries of a tokenizer: its kind, tokens, their types, merges or scores, and special tokens. Byte-level BPE of a
/// tokenizer.json becomes "gpt2", a model of SentencePiece "llama", as llama.cpp calls them. `tokens`: how many the
/// model has; ids that the tokenizer leaves free are filled. Throws UserError for other kinds, for a tokenizer of more
/// tokens than the model has, and, unless `pre_is_given` by somebody else, for words that llama.cpp is not known to cut
/// as it does.
GgufEntries gguf_tokens(const std::string& path, int64_t tokens, bool pre_is_given);

/// The entries where no tokenizer is given: readers then take and give numbers.
GgufEntries gguf_without_tokens();

}  // namespace hetsynth
