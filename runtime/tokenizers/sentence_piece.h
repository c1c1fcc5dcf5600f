// Models of SentencePiece (Kudo and Richardson 2018), by libsentencepiece.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tokenizers/tokenizer.h"

namespace hetsynth {

/// Whether bytes look like such a model: a protocol buffer whose first field is a piece.
bool looks_like_sentence_piece(std::string_view bytes);

/// `bytes` of the file. Throws UserError if they are no model.
std::unique_ptr<Tokenizer> read_sentence_piece(std::string_view bytes, const std::string& file);

/// What a model of SentencePiece consists of, for files that hold one in another form.
struct SentencePieces {
  enum class Kind { normal, unknown, control, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;     ///< by id
  int bos = -1, eos = -1;        ///< ids; -1: none
  bool merges_by_score = false;  ///< the model is BPE; else Unigram, or words or letters
};
/// Throws as read_sentence_piece does.
SentencePieces sentence_pieces(std::string_view bytes, const std::string& file);

}  // namespace hetsynth
