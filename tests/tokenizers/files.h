// Small tokenizer.json texts.
#pragma once
#include <string>

namespace hetsynth::test {

/// Parts of a tokenizer.json; "null" where nothing is said.
struct TokenizerText {
  std::string added = "[]", normalizer = "null", pre_tokenizer = "null", post_processor = "null", decoder = "null";
  std::string model;
  std::string text() const;
};

/// A byte-level BPE: the bytes in the order of their letters are 0 to 255, then "th" 256, "the" 257, "Ġthe" 258, "in"
/// 259, "ing" 260, "ĠĠ" 261, "日" 262 to 263 (two merges).
TokenizerText byte_level_text();
/// As Llama 2's: "<unk>" 0, "<s>" 1, "</s>" 2, bytes 3 to 258, then "▁" 259, "a" 260, "b" 261, "▁a" 262, "ab" 263,
/// "▁ab" 264.
TokenizerText llama2_text();
/// WordPiece: "[UNK]" 0, "un" 1, "##aff" 2, "##able" 3, "." 4.
TokenizerText word_piece_text();

}  // namespace hetsynth::test
