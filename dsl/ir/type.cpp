#include "dsl/ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace hetsynth {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
  }
  return "?";
}

int64_t size_bytes(DType dtype) { return is_half(dtype) ? 2 : 4; }

bool is_real(DType dtype) { return dtype != DType::i32; }

std::string half_names() {
  std::string out;
  for (const HalfFormat& format : half_formats) out += (out.empty() ? "" : " or ") + std::string(name(format.dtype));
  return out;
}

double rounded_to(DType half, double value) {
  const HalfFormat& format = *half_format(half);
  const float single = float(value);
  if (!(std::abs(single) <= std::numeric_limits<float>::max())) return double(single);
  const int exponent = std::max(int(std::bit_cast<uint32_t>(single) >> 23 & 0xff) - 127, format.least_exponent);
  const double unit = std::bit_cast<double>(uint64_t(exponent - format.fraction_bits + 1023) << 52);
  // Beside so large a number a double has no digits below the unit, and its addition rounds ties to even.
  const double large = 0x1p52 * unit;
  const double rounded = (std::abs(double(single)) + large) - large;
  return std::copysign(rounded > format.largest ? std::numeric_limits<double>::infinity() : rounded, double(single));
}

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

bool is_sane(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 1 || extent > largest_element_count / count) return false;
    count *= extent;
  }
  return true;
}

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string text(const TensorType& type) { return fmt::format("{}{}", name(type.dtype), text(type.shape)); }

}  // namespace hetsynth
