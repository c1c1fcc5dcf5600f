#include "runtime/data/sample_order.h"

namespace hetsynth {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9E3779B97F4A7C15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

int64_t permuted(int64_t index, int64_t count, uint64_t key) {
  int half_bits = 1;
  while (half_bits < 31 && (int64_t{1} << (2 * half_bits)) < count) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (mix(key + round, right) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace hetsynth
