// Mean over windows of an image.
#pragma once
#include "dsl/ops/max_pool2d.h"

namespace hetsynth {

/// As max_pool2d with the mean of each window. Zeros of the padding count, as in torch.nn.AvgPool2d.
Tensor avg_pool2d(Operand x, Extent2d window, Pool2d options = {});

}  // namespace hetsynth
