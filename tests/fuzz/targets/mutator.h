// The libFuzzer targets' mutations: libFuzzer's own, ours that know words and lines, and now and then a fresh start
// from a correct file.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace hetsynth::testing {

inline size_t mutate_or_restart(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                                const std::vector<std::string>& seeds) {
  std::mt19937_64 random(seed);
  if (size > 1 && random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const bool restart = size < 2 || random() % 16 == 0;
  std::string text = restart ? seeds[random() % seeds.size()] : std::string(data, data + size);
  text = mutate(std::move(text), random);
  text.resize(std::min(text.size(), max_size));
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

}  // namespace hetsynth::testing
