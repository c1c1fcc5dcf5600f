// Numbers as files store them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hetsynth {

struct StoredType {
  enum class Kind : uint8_t { boolean, unsigned_integer, integer, real, bfloat };
  Kind kind = Kind::unsigned_integer;
  int bytes = 1;  ///< 1, 2, 4 or 8; of reals 2, 4 or 8; of bfloat, the upper half of a float32, 2
  bool big_endian = false;

  bool whole() const { return kind != Kind::real && kind != Kind::bfloat; }
  bool operator==(const StoredType&) const = default;
};

/// "uint8", "big-endian float32".
std::string text(const StoredType& type);

/// Element at the beginning of `bytes` as a double. Integers beyond 2^53 are rounded.
double real_at(std::span<const std::byte> bytes, const StoredType& type);

/// Element at the beginning of `bytes`, of a type that is whole. Values of uint64 beyond int64 become its largest.
int64_t whole_at(std::span<const std::byte> bytes, const StoredType& type);

}  // namespace hetsynth
