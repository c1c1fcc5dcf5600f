#include "dsl/ops/support/spaces.h"

#include <fmt/format.h>

namespace hetsynth {

Space space_of_result(const TensorType& result) {
  Space space;
  for (size_t d = 0; d < result.shape.size(); ++d)
    space.output.dims.push_back(
        index_by(space.add_factor(fmt::format("i{}", d), result.shape[d], FactorKind::parallel)));
  return space;
}

}  // namespace hetsynth
