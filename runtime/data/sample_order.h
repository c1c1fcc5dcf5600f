// Which part of the data is sample s of a run: a permutation that needs no table.
#pragma once
#include <cstdint>

namespace hetsynth {

/// Element `index` of a permutation of [0, count) that `key` chooses: a Feistel network over the next power of four,
/// walked until it lands inside (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). count >= 1, 0 <=
/// index < count.
int64_t permuted(int64_t index, int64_t count, uint64_t key);

/// 64 well-mixed bits of the two numbers (the finaliser of SplitMix64, Steele et al. 2014).
uint64_t mix(uint64_t a, uint64_t b);

}  // namespace hetsynth
