// Models of SentencePiece (Kudo and Richardson 2018), by libsentencepiece.
#pragma once
#include <memory>
#include <string>

#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

/// Whether bytes look like such a model: a protocol buffer whose first field is a piece.
bool looks_like_sentence_piece(std::string_view bytes);

/// `bytes` of the file. Throws UserError if they are no model.
std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& file);

}  // namespace hetsynth
