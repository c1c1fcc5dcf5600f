// Numbers for values by content: equal contents, equal numbers. What repeats in a deep program is then computed once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
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

/// A number per distinct sequence of integers, counted from 0 in the order of first sight. Looking up what is known
/// allocates nothing.
template <typename Integer>
class Interner {
 public:
  Interner() = default;
  Interner(Interner&&) = default;  // sequences keep their addresses; a copy's would be the original's
  Interner& operator=(Interner&&) = default;

  int number(const std::vector<Integer>& sequence) { return number_of(sequence); }
  int number(std::vector<Integer>&& sequence) { return number_of(std::move(sequence)); }
  const std::vector<Integer>& operator[](int number) const { return *sequences_[size_t(number)]; }
  int size() const { return int(sequences_.size()); }

 private:
  /// Open addressing: sequences by hash, in the first free slot from where it points to.
  struct Slot {
    size_t hash = 0;
    int number = -1;  ///< -1: free
  };

  template <typename Sequence>
  int number_of(Sequence&& sequence) {
    if (2 * (sequences_.size() + 1) > slots_.size()) grow();
    const size_t hash = SequenceHash()(sequence), mask = slots_.size() - 1;
    size_t at = hash & mask;
    for (; slots_[at].number >= 0; at = (at + 1) & mask)
      if (slots_[at].hash == hash && *sequences_[size_t(slots_[at].number)] == sequence) return slots_[at].number;
    slots_[at] = {hash, int(sequences_.size())};
    sequences_.push_back(&stored_.emplace_back(std::forward<Sequence>(sequence)));
    return slots_[at].number;
  }

  void grow() {
    std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(16, 2 * slots_.size())));
    const size_t mask = slots_.size() - 1;
    for (const Slot& slot : before) {
      if (slot.number < 0) continue;
      size_t at = slot.hash & mask;
      while (slots_[at].number >= 0) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;  ///< a power of two, at most half of them taken
  std::deque<std::vector<Integer>> stored_;
  std::vector<const std::vector<Integer>*> sequences_;
};

/// Numbers by two words each: a map that allocates only when it grows.
class PairNumbers {
 public:
  struct Words {
    uint64_t a, b;
    bool operator==(const Words&) const = default;
  };
  static uint64_t word(int high, int low) { return uint64_t(uint32_t(high)) << 32 | uint32_t(low); }

  /// -1 where nothing was put yet. Until the next call.
  int& at(Words words) {
    if (2 * (taken_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place(words)];
    if (slot.free) {
      slot = {words, -1, false};
      ++taken_;
    }
    return slot.number;
  }

 private:
  struct Slot {
    Words words{0, 0};
    int number = -1;
    bool free = true;
  };

  size_t place(Words words) const {
    uint64_t hash = words.a * 0x9e3779b97f4a7c15ull ^ (words.b + 0x7f4a7c15ull) * 0xff51afd7ed558ccdull;
    hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdull;
    const size_t mask = slots_.size() - 1;
    size_t at = size_t(hash >> 32) & mask;
    while (!slots_[at].free && !(slots_[at].words == words)) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(16, 2 * slots_.size())));
    for (const Slot& slot : before)
      if (!slot.free) slots_[place(slot.words)] = slot;
  }

  std::vector<Slot> slots_;  ///< a power of two, at most half of them taken
  size_t taken_ = 0;
};

}  // namespace hetsynth::synth
