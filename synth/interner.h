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
    uint64_t hash = 0x9e3779b97f4a7c15ull + values.size();
    for (Integer value : values) {
      hash = (hash ^ uint64_t(value)) * 0xff51afd7ed558ccdull;
      hash ^= hash >> 32;
    }
    return size_t(hash);
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
