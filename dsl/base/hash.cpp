#include "dsl/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace hetsynth {
std::string content_hash(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}
std::string wide_content_hash(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}
}  // namespace hetsynth
