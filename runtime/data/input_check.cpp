#include "runtime/data/input_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "dsl/base/error.h"

namespace hetsynth {
namespace {

template <class T>
T value_at(std::span<const std::byte> values, size_t i) {
  T out;
  std::memcpy(&out, values.data() + i * sizeof(T), sizeof(T));
  return out;
}

/// Whether all numbers are finite. The compiler vectorizes the inner loop, whose length it knows.
bool all_finite(std::span<const std::byte> values, size_t count) {
  constexpr size_t at_once = 64;
  constexpr uint32_t exponent = 0x7F800000;
  uint32_t infinite = 0;
  const auto look_at = [&](uint32_t bits) { infinite |= static_cast<uint32_t>((bits & exponent) == exponent); };
  size_t i = 0;
  for (; i + at_once <= count; i += at_once) {
    uint32_t bits[at_once];
    std::memcpy(bits, values.data() + i * sizeof(uint32_t), sizeof(bits));
    for (size_t j = 0; j < at_once; ++j) look_at(bits[j]);
  }
  for (; i < count; ++i) look_at(value_at<uint32_t>(values, i));
  return infinite == 0;
}

/// Index in the whole input of element `i` of the part.
std::vector<int64_t> place_of(std::span<const Range> ranges, int64_t i) {
  std::vector<int64_t> out(ranges.size());
  for (size_t d = ranges.size(); d-- > 0;) {
    const int64_t extent = ranges[d].hi - ranges[d].lo;
    out[d] = ranges[d].lo + i % extent;
    i /= extent;
  }
  return out;
}

[[noreturn]] void fail(const Node& input, std::span<const Range> ranges, size_t i, int64_t step, int64_t first_sample,
                       const std::string& rank_name, const std::string& expected, const std::string& found) {
  HETSYNTH_CHECK(!ranges.empty(), "an input's first dimension is that of samples");
  const std::vector<int64_t> place = place_of(ranges, static_cast<int64_t>(i));
  const int64_t sample = first_sample + place[0];
  throw UserError(
      {input.where, "data",
       fmt::format("{}, step {}: sample {} of the run is no input for {}", rank_name, step, sample, input.name),
       expected, fmt::format("{} at {}", found, text(Shape(place))),
       "mend or leave out this sample; the last checkpoint is as it was"},
      ExitCode::failure);
}

}  // namespace

void check_input_values(const Node& input, std::span<const Range> ranges, std::span<const std::byte> values,
                        int64_t step, int64_t first_sample, const std::string& rank_name) {
  const size_t count = values.size() / static_cast<size_t>(size_bytes(input.type.dtype));
  if (input.type.dtype == DType::f32) {
    const bool takes_all = !input.data.lowest && !input.data.highest && input.data.kind != DataSource::Kind::response;
    if (takes_all && all_finite(values, count)) return;
    for (size_t i = 0; i < count; ++i) {
      const float value = value_at<float>(values, i);
      if (!takes_real(input.data, value))
        fail(input, ranges, i, step, first_sample, rank_name,
             input.data.lowest || input.data.highest ? text_of_values(input.data, DType::f32) : "finite numbers",
             fmt::format("{}", value));
    }
  } else if (input.type.dtype == DType::i32 && (input.data.classes > 0 || input.data.lowest)) {
    for (size_t i = 0; i < count; ++i) {
      const int32_t value = value_at<int32_t>(values, i);
      if (!takes_whole(input.data, value))
        fail(input, ranges, i, step, first_sample, rank_name,
             fmt::format("indices from {}", text_of_values(input.data, DType::i32)), fmt::format("{}", value));
    }
  }
}

}  // namespace hetsynth
