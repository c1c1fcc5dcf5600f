// The convolution family: one relation between image [N,C,H,W], kernel [O,C/groups,KH,KW] and result [N,O,Y,X],
//   image position = result position * stride + kernel position * dilation - padding,
// and three operators, each computing one of the tensors from the other two by summing their products. The gradients of
// each are the other two.
#pragma once
#include "dsl/ops/support/window.h"

namespace hetsynth {

struct ConvolutionShape {
  Slides slides;
  int64_t groups = 1;
};

enum class ConvolutionPart : uint8_t { result, image, kernel };

/// The operator that computes `part` from the other two: (image, kernel), (result, kernel) or (image, result).
std::shared_ptr<const Operator> convolution_operator(ConvolutionPart part, const ConvolutionShape& shape);

/// result[n,o,y,x] = sum over c, ky, kx of image * kernel, images being 0 outside.
Tensor convolution_result(Tensor image, Tensor kernel, const ConvolutionShape& shape);
/// image[n,c,h,w] = sum over all o, result and kernel positions that meet there: the transposed convolution.
Tensor convolution_image(Tensor result, Tensor kernel, const ConvolutionShape& shape);
/// kernel[o,c,ky,kx] = sum over n, y, x of image * result.
Tensor convolution_kernel(Tensor image, Tensor result, const ConvolutionShape& shape);

/// Throws UserError unless the groups divide each of these extents, which are given with what they count.
void require_groups(const char* tag, int64_t groups, const std::vector<std::pair<int64_t, const char*>>& extents,
                    const std::vector<Tensor>& arguments);

/// Where a dimension is strided and dilated: zeros between the kernel's elements instead of the dilation, since the
/// transposed convolution has no affine indices for both at once. Changes `slides` accordingly.
Tensor without_dilation(Tensor kernel, Slides& slides);

}  // namespace hetsynth
