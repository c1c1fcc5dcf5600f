#include "dsl/base/element_type.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

uint64_t bits_at(std::span<const std::byte> bytes, const StoredType& type) {
  HETSYNTH_CHECK(bytes.size() >= static_cast<size_t>(type.bytes), "the element lies in the buffer");
  uint64_t out = 0;
  for (int i = 0; i < type.bytes; ++i) {
    const int at = type.big_endian ? i : type.bytes - 1 - i;
    out = out << 8 | std::to_integer<uint64_t>(bytes[static_cast<size_t>(at)]);
  }
  return out;
}

/// IEEE 754 binary16.
double half(uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = static_cast<double>(bits & 1023) / 1024;
  double value = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  return bits >> 15 ? -value : value;
}

}  // namespace

std::string text(const StoredType& type) {
  static constexpr const char* names[] = {"bool", "uint", "int", "float", "bfloat"};
  const std::string name = type.kind == StoredType::Kind::boolean
                               ? "bool"
                               : fmt::format("{}{}", names[static_cast<int>(type.kind)], 8 * type.bytes);
  return type.big_endian && type.bytes > 1 ? "big-endian " + name : name;
}

double real_at(std::span<const std::byte> bytes, const StoredType& type) {
  if (type.whole()) return static_cast<double>(whole_at(bytes, type));
  const uint64_t bits = bits_at(bytes, type);
  if (type.kind == StoredType::Kind::bfloat) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  if (type.bytes == 2) return half(bits);
  if (type.bytes == 4) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::bit_cast<double>(bits);
}

int64_t whole_at(std::span<const std::byte> bytes, const StoredType& type) {
  HETSYNTH_CHECK(type.whole(), "whole numbers are read as such");
  const uint64_t bits = bits_at(bytes, type);
  if (type.kind != StoredType::Kind::integer) {
    constexpr auto largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(bits > largest ? largest : bits);
  }
  const int unused = 64 - 8 * type.bytes;
  return static_cast<int64_t>(bits << unused) >> unused;
}

}  // namespace hetsynth
