#include "dsl/ir/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hetsynth {

std::string_view name(DType dtype) { return dtype == DType::f32 ? "f32" : "i32"; }

int64_t size_bytes(DType) { return 4; }

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
