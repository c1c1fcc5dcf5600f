// Recognises convolutions and their gradients, as calls of hetsynth_convolution: sums of products of two of the tensors
// image, kernel and result, whose positions meet as image = result * stride + window * dilation - padding.
#pragma once
#include <array>
#include <optional>

#include "codegen/passes/layout.h"

namespace hetsynth::codegen {

/// Parts of a convolution, numbered as hetsynth_convolution takes them.
enum class ConvolutionPart : uint8_t { image, kernel, result };

/// One spatial dimension, in positions of the local windows.
struct LocalSlide {
  int64_t image = 1, window = 1, result = 1;
  int64_t stride = 1, dilation = 1,
          padding = 0;  ///< padding may be negative: rows of the image before the first window
};

struct LocalConvolution {
  ConvolutionPart computes = ConvolutionPart::result;
  int64_t batch = 1, groups = 1, channels = 1, outputs = 1;  ///< channels and outputs of a group
  std::array<LocalSlide, 2> slides;
  /// By part: operand of the operator (-1: its result), elements from the value's first element to the window's, and
  /// strides of the four dimensions.
  std::array<int, 3> operand{};
  std::array<int64_t, 3> offset{};
  std::array<std::array<int64_t, 4>, 3> strides{};
};

/// nullopt if the operator is no convolution, or one of plain 1 x 1 windows, which is a matrix product.
std::optional<LocalConvolution> match_convolution(const LocalOp& op, const LocalProgram& program,
                                                  const Layouts& layouts);

}  // namespace hetsynth::codegen
