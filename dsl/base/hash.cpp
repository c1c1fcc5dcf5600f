#include "dsl/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace hetsynth {
std::string content_hash(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}
}  // namespace hetsynth
