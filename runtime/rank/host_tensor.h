// A whole tensor in host memory, and the walk over the part of it that a rank holds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dsl/ir/interpreter.h"

namespace hetsynth {

/// Dense, row-major.
struct HostTensor {
  TensorType type;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  /// Zeros.
  explicit HostTensor(TensorType tensor_type)
      : type(std::move(tensor_type)), bytes(static_cast<size_t>(element_count(type.shape) * size_bytes(type.dtype))) {}
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The first element of a tensor of float32 that is no number, "nan at [3,4]"; empty if all are finite, or whole
/// numbers.
std::string not_finite(const HostTensor& tensor);

Array to_array(const HostTensor& tensor);
/// Rounds to the element type.
HostTensor to_host_tensor(const Array& array, DType dtype);

/// Moves an index over `ranges` to the start of the next run along the last dimension; false after the last one.
bool next_run(std::span<const Range> ranges, std::vector<int64_t>& index);

/// Calls visit(global, local, count) for every run of elements contiguous in both the whole tensor and the part: first
/// flat index in the whole, first flat index in the part, length.
template <typename Visit>
void for_each_run(const Shape& shape, std::span<const Range> ranges, const Visit& visit) {
  if (part_elements(ranges) == 0) return;
  const size_t rank = shape.size();
  if (rank == 0) return visit(int64_t{0}, int64_t{0}, int64_t{1});
  const std::vector<int64_t> strides = row_major_strides(shape);
  std::vector<int64_t> index;
  for (const Range& range : ranges) index.push_back(range.lo);
  const int64_t run = ranges[rank - 1].hi - ranges[rank - 1].lo;
  int64_t local = 0;
  do {
    int64_t global = 0;
    for (size_t d = 0; d < rank; ++d) global += index[d] * strides[d];
    visit(global, local, run);
    local += run;
  } while (next_run(ranges, index));
}

/// Copies the part between a whole tensor and a rank's dense local copy.
void copy_part_out(const HostTensor& whole, std::span<const Range> ranges, std::span<std::byte> part);
void copy_part_in(std::span<const std::byte> part, std::span<const Range> ranges, HostTensor& whole);

}  // namespace hetsynth
