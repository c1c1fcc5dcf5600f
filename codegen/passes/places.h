// Where temporaries lie: storage is shared by those that do not live at the same time.
#pragma once
#include <cstdint>
#include <vector>

namespace hetsynth::codegen {

/// Bytes that are needed from the first step to the last, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

struct Places {
  std::vector<int64_t> offset_bytes;  ///< as the lifetimes
  int64_t bytes = 0;                  ///< of all together
};

/// In the order of size, and in that of life, longest first, each at the lowest place that is free during its life.
/// What reached highest then goes to the front, again and again while there is time: few are in the way, and the sum of
/// what lives at one time cannot be beaten.
Places place(const std::vector<Lifetime>& lives);

}  // namespace hetsynth::codegen
