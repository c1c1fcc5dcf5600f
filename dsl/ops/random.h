// Random tensors.
#pragma once
#include <vector>

#include "hetsynth/tensor.h"

namespace hetsynth {

/// Float32 of this shape, drawn anew in every step: standard normal values (Box and Muller 1958), and values of the
/// uniform distribution on [low, high). As for dropout, draws depend on the run's seed, this call, the step and the
/// element's global index only, so every plan draws the same. No gradient flows: multiply and add what is trained,
/// `mean + deviation * random_normal(mean.shape())`. Throws UserError unless low < high and both are finite.
Tensor random_normal(const std::vector<int64_t>& shape, std::source_location where = std::source_location::current());
Tensor random_uniform(const std::vector<int64_t>& shape, double low = 0, double high = 1,
                      std::source_location where = std::source_location::current());

}  // namespace hetsynth
