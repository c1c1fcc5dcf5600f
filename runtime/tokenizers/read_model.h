// The member "model" of a tokenizer.json.
#pragma once
#include <memory>

#include "dsl/base/json_tree.h"
#include "runtime/tokenizers/token_model.h"

namespace hetsynth {

/// `byte_level`: the words that it is given are bytes. Throws UserError for kinds that are not supported, and for
/// merges of tokens that do not exist.
std::unique_ptr<TokenModel> read_token_model(const JsonReader& json, bool byte_level);

/// Bounds of a tokenizer's file, and of the document in a tokenizer.json.
constexpr int64_t longest_tokenizer_file = int64_t{256} << 20;
constexpr JsonLimits tokenizer_json_limits{.bytes = longest_tokenizer_file, .values = 16'000'000};

/// Ids that a file may use: a bound for the memory that a damaged one can ask for.
constexpr int64_t most_tokens = int64_t{1} << 22;

}  // namespace hetsynth
