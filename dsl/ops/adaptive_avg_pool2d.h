// Mean over windows that divide an image into a given number of parts.
#pragma once
#include "hetsynth/extent2d.h"
#include "hetsynth/tensor.h"

namespace hetsynth {

/// x [N, C, H, W]: [N, C, Y, X] for a size of Y x X. Window y covers rows floor(y H / Y) to ceil((y + 1) H / Y), as in
/// torch.nn.AdaptiveAvgPool2d; windows overlap where Y does not divide H. Throws UserError for wrong ranks or types and
/// a size below 1.
Tensor adaptive_avg_pool2d(Operand x, Extent2d size);

}  // namespace hetsynth
