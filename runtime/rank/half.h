// Numbers of 16 bits as memory holds them; arithmetic is that of float32, rounded once (to nearest, ties to even).
#pragma once
#include <bit>
#include <cstdint>

namespace hetsynth {

/// The upper half of a float32.
struct Bf16 {
  uint16_t bits;
  Bf16() = default;
  explicit Bf16(float x) {
    const auto b = std::bit_cast<uint32_t>(x);
    bits = static_cast<uint16_t>(x == x ? (b + 0x7fff + (b >> 16 & 1)) >> 16 : b >> 16 | 0x40);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
struct Fp16 {
  uint16_t bits;
  Fp16() = default;
  explicit Fp16(float x) {
    const auto b = std::bit_cast<uint32_t>(x), magnitude = b & 0x7fffffff;
    // From 2^-14 on the exponent changes its bias; the carry of rounding may reach it, and infinity.
    const uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Below, 1/2 has the unit of subnormal numbers as its last digit.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t rounded = magnitude < 0x38800000 ? subnormal : magnitude < 0x477ff000 ? normal : 0x7c00;
    bits = static_cast<uint16_t>((magnitude <= 0x7f800000 ? rounded : 0x7e00) | (b >> 16 & 0x8000));
  }
  operator float() const {
    const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13, sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t normal = magnitude + 0x38000000;
    const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000) - 0x1p-14f);
    const uint32_t wide = magnitude < 0x800000 ? subnormal : magnitude < 0xf800000 ? normal : magnitude + 0x70000000;
    return std::bit_cast<float>(wide | sign);
  }
};

}  // namespace hetsynth
