#include "tests/tokenizers/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dsl/base/json_tree.h"
#include "runtime/tokenizers/byte_letters.h"

namespace hetsynth::test {
namespace {

std::string vocabulary_text(const std::vector<std::string>& tokens) {
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i)
    out += fmt::format("{}\n{}: {}", out.empty() ? "" : ",", json_quoted(tokens[i]), i);
  return "{" + out + "}";
}

}  // namespace

std::string TokenizerText::text() const {
  return fmt::format(
      "{{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,\n\"added_tokens\": {},\n\"normalizer\": {},\n"
      "\"pre_tokenizer\": {},\n\"post_processor\": {},\n\"decoder\": {},\n\"model\": {}}}\n",
      added, normalizer, pre_tokenizer, post_processor, decoder, model);
}

TokenizerText byte_level_text() {
  std::vector<char32_t> letters;
  for (int byte = 0; byte < 256; ++byte) letters.push_back(byte_letter(static_cast<unsigned char>(byte)));
  std::ranges::sort(letters);
  std::vector<std::string> tokens;
  for (int i = 0; i < 256; ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      if (byte_letter(static_cast<unsigned char>(byte)) == letters[static_cast<size_t>(i)])
        tokens.push_back(byte_letters(std::string(1, static_cast<char>(byte))));
    }
  }
  const std::string day = byte_letters("日");  // three letters of two bytes each
  for (const std::string& token : {std::string("th"), std::string("the"), byte_letters(" the"), std::string("in"),
                                   std::string("ing"), byte_letters("  "), day.substr(0, day.size() - 2), day})
    tokens.push_back(token);
  TokenizerText out;
  out.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})";
  out.decoder = R"({"type": "ByteLevel"})";
  const std::string merges = fmt::format(
      R"(["t h", "th e", "{0} the", ["i", "n"], ["in", "g"], "{0} {0}", "{1} {2}", "{3} {4}"])", byte_letters(" "),
      day.substr(0, 2), day.substr(2, day.size() - 4), day.substr(0, day.size() - 2), day.substr(day.size() - 2));
  out.model = fmt::format(R"({{"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
"end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
"vocab": {}, "merges": {}}})",
                          vocabulary_text(tokens), merges);
  return out;
}

TokenizerText llama2_text() {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  for (const char* token : {"▁", "a", "b", "▁a", "ab", "▁ab"}) tokens.emplace_back(token);
  TokenizerText out;
  out.added = R"([{"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
"normalized": false, "special": true}])";
  out.normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
  out.post_processor = R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1],
"tokens": ["<s>"]}}})";
  out.decoder = R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  out.model = fmt::format(R"({{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
"vocab": {}, "merges": ["▁ a", "a b", "▁ ab"]}})",
                          vocabulary_text(tokens));
  return out;
}

TokenizerText word_piece_text() {
  TokenizerText out;
  out.normalizer = R"({"type": "Lowercase"})";
  out.pre_tokenizer = R"({"type": "BertPreTokenizer"})";
  out.decoder = R"({"type": "WordPiece", "prefix": "##", "cleanup": false})";
  out.model = fmt::format(R"({{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
"max_input_chars_per_word": 20, "vocab": {}}})",
                          vocabulary_text({"[UNK]", "un", "##aff", "##able", "."}));
  return out;
}

}  // namespace hetsynth::test
