// Words that were encoded lately: texts repeat their words.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace hetsynth {

/// One place per hash, whose last word stays; longer words and those of more tokens are not kept.
class WordCache {
 public:
  WordCache() : entries_(size_t{1} << 16) {}

  /// Appends the ids of the word if it is known.
  bool find(std::string_view word, std::vector<int32_t>& ids) const {
    if (word.size() > longest) return false;
    const Entry& entry = entries_[place_of(word)];
    if (entry.length != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return true;
  }

  void put(std::string_view word, const int32_t* ids, size_t count) {
    if (word.size() > longest || count > most_ids) return;
    Entry& entry = entries_[place_of(word)];
    entry.length = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids, count * sizeof *ids);
  }

 private:
  static constexpr size_t longest = 30, most_ids = 8;
  struct Entry {  // a line of the processor's cache
    uint8_t length = 255, count = 0;
    std::array<char, longest> word{};
    std::array<int32_t, most_ids> ids{};
  };
  size_t place_of(std::string_view word) const {
    uint64_t hash = word.size() * 0x9E3779B97F4A7C15u;
    for (; word.size() >= 8; word.remove_prefix(8)) hash = mixed(hash, word, 8);
    if (!word.empty()) hash = mixed(hash, word, word.size());
    return static_cast<size_t>(hash >> 48) & (entries_.size() - 1);
  }
  static uint64_t mixed(uint64_t hash, std::string_view word, size_t bytes) {
    uint64_t eight = 0;
    std::memcpy(&eight, word.data(), bytes);
    hash = (hash ^ eight) * 0xD6E8FEB86659FD93u;
    return hash ^ hash >> 32;
  }
  std::vector<Entry> entries_;
};

}  // namespace hetsynth
