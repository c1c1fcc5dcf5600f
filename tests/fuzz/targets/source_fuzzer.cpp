#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets/mutator.h"
#include "tests/source/edited_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hetsynth::test::check_edited_text({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return hetsynth::testing::mutate_or_restart(data, size, max_size, seed, hetsynth::test::texts_to_edit());
}
