// A hash table from pairs of tokens to merges: of all that encoding does, it looks up pairs most often.
#pragma once
#include <cstdint>
#include <vector>

namespace hetsynth {

struct MergeRule {
  int32_t rank = -1;  ///< lower ones are applied first; -1: there is none
  int32_t made = -1;  ///< the token that takes the place of both
};

/// Open addressing, half full at most.
class PairTable {
 public:
  explicit PairTable(size_t pairs = 0);
  /// The last rule that was given for a pair stays. At most as many pairs as the table was made for.
  void set(int32_t left, int32_t right, MergeRule rule);
  MergeRule find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.rule;
      if (slot.key == none) return {};
    }
  }

 private:
  static constexpr uint64_t none = ~uint64_t{0};  // ids are not negative
  struct Slot {
    uint64_t key = none;
    MergeRule rule;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> 20) & mask_; }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace hetsynth
