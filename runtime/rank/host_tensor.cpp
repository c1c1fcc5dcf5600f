#include "runtime/rank/host_tensor.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "dsl/base/error.h"
#include "runtime/rank/half.h"

namespace hetsynth {

std::string not_finite(const HostTensor& tensor) {
  if (tensor.type.dtype != DType::f32) return "";
  constexpr uint32_t exponent = 0x7F800000;
  bool any = false;
  for (const uint32_t bits : tensor.as<uint32_t>()) any |= (bits & exponent) == exponent;
  if (!any) return "";
  const std::span<const float> values = tensor.as<float>();
  size_t at = 0;
  while (std::isfinite(values[at])) ++at;
  Shape place(tensor.type.shape.size());
  auto left = static_cast<int64_t>(at);
  for (size_t d = place.size(); d-- > 0;) {
    place[d] = left % tensor.type.shape[d];
    left /= tensor.type.shape[d];
  }
  return fmt::format("{} at {}", values[at], text(place));
}

Array to_array(const HostTensor& tensor) {
  Array out(tensor.type.shape);
  switch (tensor.type.dtype) {
    case DType::f32: {
      const auto values = tensor.as<float>();
      out.values.assign(values.begin(), values.end());
      break;
    }
    case DType::i32: {
      const auto values = tensor.as<int32_t>();
      out.values.assign(values.begin(), values.end());
      break;
    }
    case DType::bf16: {
      const auto values = tensor.as<Bf16>();
      out.values.assign(values.begin(), values.end());
      break;
    }
    case DType::fp16: {
      const auto values = tensor.as<Fp16>();
      out.values.assign(values.begin(), values.end());
      break;
    }
  }
  return out;
}

HostTensor to_host_tensor(const Array& array, DType dtype) {
  HostTensor out(TensorType{array.shape, dtype});
  for (size_t i = 0; i < array.values.size(); ++i) {
    switch (dtype) {
      case DType::f32:
        out.as<float>()[i] = static_cast<float>(array.values[i]);
        break;
      case DType::i32:
        out.as<int32_t>()[i] = static_cast<int32_t>(std::lround(array.values[i]));
        break;
      case DType::bf16:
        out.as<Bf16>()[i] = Bf16(static_cast<float>(array.values[i]));
        break;
      case DType::fp16:
        out.as<Fp16>()[i] = Fp16(static_cast<float>(array.values[i]));
        break;
    }
  }
  return out;
}

bool next_run(std::span<const Range> ranges, std::vector<int64_t>& index) {
  for (size_t d = index.size() - 1; d-- > 0;) {
    if (++index[d] < ranges[d].hi) return true;
    index[d] = ranges[d].lo;
  }
  return false;
}

void copy_part_out(const HostTensor& whole, std::span<const Range> ranges, std::span<std::byte> part) {
  const auto size = static_cast<size_t>(size_bytes(whole.type.dtype));
  HETSYNTH_CHECK(part.size() == static_cast<size_t>(part_elements(ranges)) * size,
                 "the part has the size of its ranges");
  for_each_run(whole.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
    std::memcpy(part.data() + static_cast<size_t>(local) * size,
                whole.bytes.data() + static_cast<size_t>(global) * size, static_cast<size_t>(count) * size);
  });
}

void copy_part_in(std::span<const std::byte> part, std::span<const Range> ranges, HostTensor& whole) {
  const auto size = static_cast<size_t>(size_bytes(whole.type.dtype));
  HETSYNTH_CHECK(part.size() == static_cast<size_t>(part_elements(ranges)) * size,
                 "the part has the size of its ranges");
  for_each_run(whole.type.shape, ranges, [&](int64_t global, int64_t local, int64_t count) {
    std::memcpy(whole.bytes.data() + static_cast<size_t>(global) * size,
                part.data() + static_cast<size_t>(local) * size, static_cast<size_t>(count) * size);
  });
}

}  // namespace hetsynth
