#include "runtime/token_files/bpe_training.h"

#include <algorithm>
#include <queue>

#include "dsl/base/error.h"
#include "runtime/tokenizers/byte_letters.h"

namespace hetsynth {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 16);
  }
};

/// Where a pair occurs: words that hold it, and some that held it.
struct Occurrences {
  int64_t count = 0;
  std::vector<uint32_t> words;
};

struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

/// A word that occurs in the text, as the tokens that it is made of so far.
struct Word {
  std::vector<int32_t> tokens;
  int64_t count;
};

class Training {
 public:
  Training(const WordCounts& counts, const BpeTraining& settings) : settings_(settings) {
    out_.special = settings.special;
    add_bytes();
    for (const auto& [word, count] : counts) {
      if (word.size() < 2) continue;
      Word made{{}, count};
      for (const char byte : word) made.tokens.push_back(id_of_.at(std::string(1, byte)));
      words_.push_back(std::move(made));
    }
    for (size_t i = 0; i < words_.size(); ++i) {
      for (size_t j = 0; j + 1 < words_[i].tokens.size(); ++j)
        add({words_[i].tokens[j], words_[i].tokens[j + 1]}, words_[i].count, i);
    }
    for (const auto& [pair, found] : pairs_) queue_.push({found.count, pair});
  }

  TrainedBpe run(const std::function<void(int64_t)>& progress) {
    while (size() < settings_.vocabulary && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(best.pair);
      if (found == pairs_.end()) continue;
      if (found->second.count != best.count) {  // it has become rarer, or a new entry tells of more
        if (found->second.count > 0 && found->second.count < best.count) queue_.push({found->second.count, best.pair});
        continue;
      }
      if (best.count < std::max<int64_t>(1, settings_.least_count)) break;
      merge(best.pair);
      if (progress) progress(size());
    }
    return std::move(out_);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(out_.special.size() + out_.tokens.size()); }
  const std::string& bytes_of(int32_t id) const { return out_.tokens[static_cast<size_t>(id) - out_.special.size()]; }

  int32_t add_token(const std::string& bytes) {
    const auto [at, added] = id_of_.emplace(bytes, static_cast<int32_t>(size()));
    if (added) out_.tokens.push_back(bytes);
    return at->second;
  }

  /// All bytes, in the order of the letters that they are written as.
  void add_bytes() {
    std::vector<unsigned char> bytes(256);
    for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<unsigned char>(i);
    std::ranges::sort(bytes, {}, byte_letter);
    for (const unsigned char byte : bytes) add_token(std::string(1, static_cast<char>(byte)));
  }

  void add(Pair pair, int64_t count, size_t word) {
    Occurrences& found = pairs_[pair];
    found.count += count;
    const auto number = static_cast<uint32_t>(word);
    if (found.words.empty() || found.words.back() != number) found.words.push_back(number);
  }

  void remove(Pair pair, int64_t count) {
    if (const auto found = pairs_.find(pair); found != pairs_.end()) found->second.count -= count;
  }

  void merge(Pair pair) {
    const std::string left = bytes_of(pair.first), right = bytes_of(pair.second);
    const int32_t made = add_token(left + right);
    out_.merges.emplace_back(left, right);
    const std::vector<uint32_t> words = std::move(pairs_.extract(pair).mapped().words);
    std::vector<Pair> grown;
    for (const uint32_t number : words) merge_in(words_[number], number, pair, made, grown);
    std::ranges::sort(grown);
    const auto [first, last] = std::ranges::unique(grown);
    grown.erase(first, last);
    for (const Pair& now : grown) {
      const auto found = pairs_.find(now);
      if (found != pairs_.end() && found->second.count > 0) queue_.push({found->second.count, now});
    }
  }

  void merge_in(Word& word, size_t number, Pair pair, int32_t made, std::vector<Pair>& grown) {
    std::vector<int32_t>& tokens = word.tokens;
    const auto grow = [&](Pair now) {
      add(now, word.count, number);
      grown.push_back(now);
    };
    size_t to = 0;
    for (size_t from = 0; from < tokens.size(); ++from, ++to) {
      if (from + 1 == tokens.size() || tokens[from] != pair.first || tokens[from + 1] != pair.second) {
        tokens[to] = tokens[from];
        continue;
      }
      if (to > 0) {
        remove({tokens[to - 1], pair.first}, word.count);
        grow({tokens[to - 1], made});
      }
      ++from;
      if (from + 1 < tokens.size()) {
        remove({pair.second, tokens[from + 1]}, word.count);
        grow({made, tokens[from + 1]});
      }
      tokens[to] = made;
    }
    tokens.resize(to);
  }

  const BpeTraining& settings_;
  TrainedBpe out_;
  std::unordered_map<std::string, int32_t> id_of_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences, PairHash> pairs_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void count_words(std::string_view text, const unicode::WordPattern& pattern, bool more, WordCounts& counts) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = pattern.end_of_word(text, at, more);
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (const auto found = counts.find(word); found != counts.end()) {
      ++found->second;
    } else {
      counts.emplace(word, 1);
    }
  }
}

TrainedBpe train_bpe(const WordCounts& counts, const BpeTraining& training,
                     const std::function<void(int64_t)>& progress) {
  HETSYNTH_CHECK(training.vocabulary >= 256 + static_cast<int64_t>(training.special.size()), "all bytes are tokens");
  return Training(counts, training).run(progress);
}

}  // namespace hetsynth
