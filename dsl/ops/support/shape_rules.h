// What operators ask of shapes: dimension numbers, broadcasting, element types. Failures are the user's: they carry the
// operator's tag.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/include/hetsynth/tensor.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// The dimension counted from the front. Throws UserError unless -rank <= dim < rank.
int normalize_dim(std::string_view tag, int dim, const Shape& shape);

/// Dimensions counted from the front, ascending; an empty list means all. Throws UserError for a repeated or absent
/// one.
std::vector<int> normalize_dims(std::string_view tag, const std::vector<int>& dims, const Shape& shape);

/// NumPy broadcasting: shapes aligned at their last dimension, extents equal or 1. Throws UserError if they do not fit.
Shape broadcast_shapes(std::string_view tag, const std::vector<Shape>& shapes);

/// Throws UserError unless argument `position` (from 0) has this element type.
void require_dtype(std::string_view tag, size_t position, const TensorType& type, DType expected);

/// Throws UserError unless two arguments can be multiplied and summed up: both float32, both bf16 or both fp16.
void require_products(std::string_view tag, std::span<const TensorType> inputs);

/// Throws UserError unless argument `position` (from 0) has at least `rank` dimensions.
void require_rank_at_least(std::string_view tag, size_t position, const TensorType& type, size_t rank);

/// Into how many blocks of equal length a dimension is cut before each element looks at all elements before it: 1 up to
/// 64 elements, else the divisor nearest to the square root from below (1 for primes), so that going over a block and
/// going over the blocks take about the same.
int64_t scan_blocks(int64_t extent);

/// "[32,256] x [128,10]".
std::string joined(const std::vector<Shape>& shapes, std::string_view separator);

/// For composite functions: throws with the place of the user's call (the current CallScope) and notes on the
/// arguments.
[[noreturn]] void fail_call(Diagnostic diagnostic, const std::vector<Tensor>& arguments);

/// For composite functions: runs a check such as normalize_dim and gives its UserError the place of the call and notes
/// on the arguments.
template <class Check>
auto checked_call(const std::vector<Tensor>& arguments, const Check& check) {
  try {
    return check();
  } catch (const UserError& error) {
    fail_call(error.diagnostic(), arguments);
  }
}

/// For composite functions and labels: throws UserError if `indices` is an input whose values can reach beyond
/// `extent`.
void require_index_range(std::string_view tag, Tensor indices, int64_t extent, std::string_view what);

}  // namespace hetsynth
