// What gather and scatter_add share: indices that name places along one dimension.
#pragma once
#include <string>
#include <string_view>

#include "dsl/ir/expr.h"
#include "dsl/ir/space.h"
#include "dsl/ir/type.h"

namespace hetsynth {

/// Throws UserError unless `indices` is i32 and has the shape `x` but for dimension `dim`.
void require_line_indices(std::string_view tag, int dim, const Shape& x, const TensorType& indices);

/// What to do about indices of another shape: "broadcast(reshape(indices, {5,1}), {5,3}) ..." for one index per place
/// along `dim`.
std::string full_index_mend(int dim, const Shape& x, const Shape& indices);

/// Input 1 holds indices of this shape into `extent` places along `dim`. A lookup reads input 0 at the place and sums
/// over places; a scatter (`scatters`) reads input 0 where the index stands and sums over indices.
Space line_lookup_space(const Shape& indices, int dim, int64_t extent, bool scatters);
/// select(index == place, value, 0); `rank` is that of the indices.
Expr line_lookup_body(size_t rank);

}  // namespace hetsynth
