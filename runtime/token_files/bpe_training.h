// Training of a byte-level BPE (Gage 1994; Sennrich et al. 2016; Radford et al. 2019).
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/tokenizers/bpe_model.h"
#include "runtime/unicode/word_patterns.h"

namespace hetsynth {

/// How often words occur.
using WordCounts = std::unordered_map<std::string, int64_t, StringHash, std::equal_to<>>;

/// Adds the words of a text. `more`: see TokenEncoder::encode.
void count_words(std::string_view text, const unicode::WordPattern& pattern, bool more, WordCounts& counts);

struct BpeTraining {
  int64_t vocabulary = 0;                 ///< tokens to end with: special ones, 256 bytes, and merges
  std::vector<std::string> special = {};  ///< get the first ids
  int64_t least_count = 2;                ///< a pair that is rarer is not merged
};

struct TrainedBpe {
  std::vector<std::string> special;
  std::vector<std::string> tokens;                          ///< by id, after the special ones, as bytes
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank, as bytes
};

/// Merges the most frequent pair of neighbours, again and again; of equals that of the least ids, as PyPI's tokenizers
/// does. Fewer tokens than wanted if no pair is frequent enough. `progress` is told the tokens so far.
TrainedBpe train_bpe(const WordCounts& counts, const BpeTraining& training,
                     const std::function<void(int64_t)>& progress = {});

/// A tokenizer.json. `expression` is GPT-2's or Llama 3's (word_patterns.h).
std::string tokenizer_json(const TrainedBpe& trained, std::string_view expression);

}  // namespace hetsynth
