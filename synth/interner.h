// Numbers for values by content: equal contents, equal numbers. What repeats in a deep program is then computed once.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hetsynth::synth {

struct SequenceHash {
  template <typename Integer>
  size_t operator()(const std::vector<Integer>& values) const {
    return of(values.data(), values.size());
  }
  template <typename Integer>
  size_t of(const Integer* values, size_t count) const {
    // Long tables in several strands, which do not wait for each other.
    constexpr size_t strands = 4;
    uint64_t hash[strands];
    for (size_t s = 0; s < strands; ++s) hash[s] = 0x9e3779b97f4a7c15ull * (s + 1) + count;
    size_t i = 0;
    for (; i + strands <= count; i += strands)
      for (size_t s = 0; s < strands; ++s) mix(&hash[s], uint64_t(values[i + s]));
    for (; i < count; ++i) mix(&hash[0], uint64_t(values[i]));
    for (size_t s = 1; s < strands; ++s) mix(&hash[0], hash[s]);
    return size_t(hash[0]);
  }

 private:
  static void mix(uint64_t* hash, uint64_t value) {
    *hash = (*hash ^ value) * 0xff51afd7ed558ccdull;
    *hash ^= *hash >> 32;
  }
};

/// A number per distinct sequence of integers, counted from 0 in the order of first sight.
template <typename Integer>
class Interner {
 public:
  Interner() = default;
  Interner(Interner&&) = default;  // sequences keep their addresses; a copy's would be the original's
  Interner& operator=(Interner&&) = default;

  int number(std::vector<Integer> sequence) {
    auto [it, fresh] = numbers_.try_emplace(std::move(sequence), int(sequences_.size()));
    if (fresh) sequences_.push_back(&it->first);
    return it->second;
  }
  const std::vector<Integer>& operator[](int number) const { return *sequences_[number]; }
  int size() const { return int(sequences_.size()); }

 private:
  std::unordered_map<std::vector<Integer>, int, SequenceHash> numbers_;
  std::vector<const std::vector<Integer>*> sequences_;
};

}  // namespace hetsynth::synth
