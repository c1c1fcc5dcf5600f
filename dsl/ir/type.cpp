#include "dsl/ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  }
  return "?";
}

int64_t size_bytes(DType dtype) { return dtype == DType::bf16 ? 2 : 4; }

bool is_real(DType dtype) { return dtype != DType::i32; }

double rounded_to_bf16(double value) {
  const float single = float(value);
  if (!(std::abs(single) <= std::numeric_limits<float>::max())) return double(single);
  uint32_t bits = std::bit_cast<uint32_t>(single);
  bits += 0x7fff + (bits >> 16 & 1);
  return double(std::bit_cast<float>(bits & 0xffff0000));
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
