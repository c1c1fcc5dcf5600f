// Normalisation by mean and variance over some dimensions, followed by gain and bias.
#pragma once
#include <string>
#include <vector>

#include "dsl/include/hetsynth/tensor.h"

namespace hetsynth {

struct Normalized {
  Tensor out;
  Tensor mean, squares;  ///< per group: mean, and sum of squared differences from it; normalised dimensions stay with 1
  int64_t count;         ///< elements per group
};

/// (x - mean) / sqrt(variance + eps) * gain + bias, mean and variance over `dims` (counted from the front). Gain and
/// bias broadcast to x after `lift` dimensions of extent 1 were put behind theirs. `tag` names what it is made of.
Normalized normalize(const std::string& tag, Tensor x, const std::vector<int>& dims, Tensor gain, Tensor bias, int lift,
                     double eps);

}  // namespace hetsynth
