// Images of another size.
#pragma once
#include "hetsynth/extent2d.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

enum class Interpolation {
  nearest,   ///< the element whose place is the position of the result, rounded down
  bilinear,  ///< the mean of the elements around it, weighted by closeness, along height and along width
};

/// x [N, C, H, W] as [N, C, size.height, size.width]. Along a dimension of extent n that becomes m, element i of the
/// result reads x at floor(i n / m) (nearest), or between its neighbours at (i + 1/2) n / m - 1/2, limited to
/// [0, n - 1] (bilinear): `interpolate` of PyTorch with align_corners=False and without antialiasing. Cheapest where
/// one extent divides the other; otherwise every row of the result goes over n / gcd(n, m) rows. Throws UserError
/// unless x is float32 with four dimensions and the size is at least 1.
Tensor interpolate(Operand x, Extent2d size, Interpolation mode = Interpolation::nearest);
/// Interpolates to an image that is `factor` times as high and wide.
Tensor upsample(Operand x, Extent2d factor, Interpolation mode = Interpolation::nearest);

}  // namespace hetsynth
