#include "dsl/base/error.h"
#include "runtime/tokenizers/tokenizer.h"
#include "tests/fuzz/cases.h"
#include "tests/tokenizers/files.h"

namespace hetsynth::testing {

std::vector<std::string> tokenizer_seeds() {
  test::TokenizerText split = test::byte_level_text();
  split.added = R"([{"id": 264, "content": "<end>", "lstrip": true, "normalized": true, "special": true}])";
  split.normalizer = R"({"type": "NFC"})";
  split.pre_tokenizer = R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
"[^\\r\\n\\p{L}]?\\p{L}+(?i:'s|'t)?|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"}, "behavior": "MergedWithNext", "invert": false},
{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false}]})";
  return {test::byte_level_text().text(), split.text(), test::llama2_text().text(), test::word_piece_text().text()};
}

bool check_tokenizer_bytes(std::string_view bytes) {
  try {
    const auto tokenizer = read_tokenizer_json(bytes, "tokenizer.json");
    for (const char* text : {"the thing's 12 <end>\n 日", "", "  unaffable. ab c\xF0\x9F\x91\x8D"}) {
      const std::vector<int32_t> ids = tokenizer->encode(text);
      for (const int32_t id : ids) HETSYNTH_CHECK(id >= 0 && id < tokenizer->vocabulary(), "an id of the vocabulary");
      tokenizer->decode(ids);
    }
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace hetsynth::testing
