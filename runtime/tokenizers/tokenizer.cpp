#include "runtime/tokenizers/tokenizer.h"

#include <fmt/format.h>

#include "dsl/base/error.h"
#include "dsl/base/file.h"
#include "dsl/base/suggest.h"
#include "runtime/tokenizers/read_model.h"
#include "runtime/tokenizers/sentence_piece.h"
#include "runtime/unicode/utf8.h"

namespace hetsynth {

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  if (const size_t at = unicode::first_invalid(text); at != std::string_view::npos) {
    throw UserError({.tag = "tokenizer",
                     .message = "the text is no UTF-8",
                     .found = fmt::format("byte 0x{:02X} at byte {}", static_cast<unsigned char>(text[at]), at)});
  }
  std::vector<int32_t> ids;
  encoder()->encode(text, true, false, ids);
  return ids;
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  const std::string bytes = read_file(path, "tokenizer", longest_tokenizer_file);
  const size_t begin = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (begin != std::string::npos && bytes[begin] == '{') return read_tokenizer_json(bytes, path);
  if (looks_like_sentence_piece(bytes)) return read_sentence_piece(bytes, path);
  throw UserError(
      {.where = {path},
       .tag = "tokenizer",
       .message = "this kind of tokenizer is not known",
       .expected = "a tokenizer.json, or a model of SentencePiece",
       .found = bytes.empty() ? "an empty file" : "a file that begins with " + quote(in_ascii(bytes.substr(0, 16))),
       .mend = "make one of your texts: hetsynth tokenize TEXTS --train-bpe 8192 -o tokenizer.json"});
}

}  // namespace hetsynth
