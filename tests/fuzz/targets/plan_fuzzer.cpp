#include <cstddef>
#include <cstdint>

#include "tests/fuzz/cases.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hetsynth::testing::check_plan_bytes({reinterpret_cast<const char*>(data), size});
  return 0;
}
