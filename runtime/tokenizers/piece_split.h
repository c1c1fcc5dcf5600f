// One step of a pre-tokenizer.
#pragma once
#include <vector>

#include "runtime/tokenizers/pre_tokenizer.h"

namespace hetsynth {

/// Appends the parts of a piece; those that are empty are left out.
void split_piece(const PreTokenizerStep& step, Piece piece, std::vector<Piece>& parts);

}  // namespace hetsynth
