// Shapes and element types of tensors.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hetsynth {

/// Element type. Every type is real arithmetic to the verifier and double to the reference interpreter.
/// The formats of 16 bits are storage: what computes with them computes in float32.
enum class DType : uint8_t { f32, i32, bf16, fp16 };

/// A floating-point format of 16 bits; beyond what it holds lies infinity.
struct HalfFormat {
  DType dtype;
  int fraction_bits;
  int least_exponent;  ///< of a normal number; below, subnormal ones lie evenly
  double largest;
};
constexpr HalfFormat half_formats[] = {{DType::bf16, 7, -126, 0x1.fep127}, {DType::fp16, 10, -14, 65504}};
/// nullptr: the type is no format of 16 bits.
constexpr const HalfFormat* half_format(DType dtype) {
  for (const HalfFormat& format : half_formats)
    if (format.dtype == dtype) return &format;
  return nullptr;
}
constexpr bool is_half(DType dtype) { return half_format(dtype) != nullptr; }

std::string_view name(DType dtype);
int64_t size_bytes(DType dtype);
/// Numbers rather than indices.
bool is_real(DType dtype);
/// "bf16 or fp16", for messages.
std::string half_names();
/// The nearest number of a format of 16 bits (ties to even) of the nearest float32.
double rounded_to(DType half, double value);

/// Extents, outermost first; empty for a scalar.
using Shape = std::vector<int64_t>;

/// "[32,256]"; "[]" for a scalar.
std::string text(const Shape& shape);

/// Number of elements; 1 for a scalar.
int64_t element_count(const Shape& shape);

/// Most elements a tensor may have: far above any machine, far below where counts of bytes would overflow.
inline constexpr int64_t largest_element_count = int64_t(1) << 48;
/// Whether every extent is at least 1 and their product at most `largest_element_count`.
bool is_sane(const Shape& shape);

/// Row-major strides in elements.
std::vector<int64_t> row_major_strides(const Shape& shape);

struct TensorType {
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const TensorType&) const = default;
};

/// "f32[32,256]".
std::string text(const TensorType& type);

}  // namespace hetsynth
