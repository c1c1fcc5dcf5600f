// Writes a tokenizer.json that PyPI's tokenizers reads, too.
#include <fmt/format.h>

#include "dsl/base/json_tree.h"
#include "runtime/token_files/bpe_training.h"
#include "runtime/tokenizers/byte_letters.h"

namespace hetsynth {
namespace {

std::string pre_tokenizer_json(std::string_view expression) {
  constexpr const char* byte_level =
      R"({{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": {}}})";
  if (expression == unicode::gpt2_expression) return fmt::format(fmt::runtime(byte_level), true);
  return fmt::format(
      R"({{"type": "Sequence", "pretokenizers": [
    {{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}},
    {}]}})",
      json_quoted(expression), fmt::format(fmt::runtime(byte_level), false));
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& trained, std::string_view expression) {
  std::string added, vocabulary, merges;
  int64_t id = 0;
  for (const std::string& token : trained.special) {
    added += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
        "\"normalized\": false, \"special\": true}}",
        added.empty() ? "" : ",", id, json_quoted(token));
    vocabulary += fmt::format("{}\n      {}: {}", vocabulary.empty() ? "" : ",", json_quoted(token), id++);
  }
  for (const std::string& token : trained.tokens)
    vocabulary +=
        fmt::format("{}\n      {}: {}", vocabulary.empty() ? "" : ",", json_quoted(byte_letters(token)), id++);
  for (const auto& [left, right] : trained.merges)
    merges += fmt::format("{}\n      {}", merges.empty() ? "" : ",",
                          json_quoted(byte_letters(left) + " " + byte_letters(right)));
  return fmt::format(R"({{
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [{}],
  "normalizer": null,
  "pre_tokenizer": {},
  "post_processor": null,
  "decoder": {{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{{}
    }},
    "merges": [{}
    ]
  }}
}}
)",
                     added, pre_tokenizer_json(expression), vocabulary, merges);
}

}  // namespace hetsynth
