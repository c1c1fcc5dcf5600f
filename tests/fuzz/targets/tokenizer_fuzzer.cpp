#include <cstddef>
#include <cstdint>

#include "tests/fuzz/cases.h"
#include "tests/fuzz/targets/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hetsynth::testing::check_tokenizer_bytes({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  static const std::vector<std::string> seeds = hetsynth::testing::tokenizer_seeds();
  return hetsynth::testing::mutate_or_restart(data, size, max_size, seed, seeds);
}
