#include "dsl/ops/support/line_lookup.h"

#include <fmt/format.h>

#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {

std::string full_index_mend(int dim, const Shape& x, const Shape& indices) {
  if (indices.size() != 1 || x.size() < 2) return "broadcast(indices, shape) repeats them along the other dimensions";
  Shape lifted(x.size(), 1), full = x;
  lifted[size_t(dim)] = full[size_t(dim)] = indices[0];
  const auto braces = [](std::string list) { return "{" + list.substr(1, list.size() - 2) + "}"; };
  return fmt::format("broadcast(reshape(indices, {}), {}) repeats them along the other dimensions",
                     braces(text(lifted)), braces(text(full)));
}

void require_line_indices(std::string_view tag, int dim, const Shape& x, const TensorType& indices) {
  require_dtype(tag, 1, indices, DType::i32);
  int at = normalize_dim(tag, dim, x);
  Shape expected = x;
  if (indices.shape.size() == x.size()) expected[size_t(at)] = indices.shape[size_t(at)];
  if (indices.shape == expected) return;
  std::string wanted;
  for (size_t d = 0; d < x.size(); ++d)
    wanted += fmt::format("{}{}", d == 0 ? "" : ",", int(d) == at ? "any" : std::to_string(x[d]));
  const bool rows = at == 0 && indices.shape.size() == 1 && x.size() > 1;
  throw UserError({.tag = std::string(tag),
                   .message = fmt::format("indices do not fit: {} for {}", text(indices.shape), text(x)),
                   .expected = fmt::format("indices like {} in all dimensions but {}: [{}]", text(x), at, wanted),
                   .found = text(indices),
                   .mend = (rows ? "embedding(x, indices) picks whole rows by one index each; otherwise " : "") +
                           full_index_mend(at, x, indices.shape)});
}

Space line_lookup_space(const Shape& indices, int dim, int64_t extent, bool scatters) {
  Space space;
  Access at_index;
  for (size_t d = 0; d < indices.size(); ++d) {
    bool summed = scatters && int(d) == dim;
    at_index.dims.push_back(
        index_by(space.add_factor(fmt::format("i{}", d), indices[d], summed ? FactorKind::sum : FactorKind::parallel)));
  }
  Access at_place = at_index;
  at_place.dims[size_t(dim)] =
      index_by(space.add_factor("v", extent, scatters ? FactorKind::parallel : FactorKind::sum));
  space.inputs = {scatters ? at_index : at_place, at_index};
  space.output = scatters ? at_place : at_index;
  return space;
}

Expr line_lookup_body(size_t rank) {
  return select(equal(Expr::input(1), Expr::factor(int(rank))), Expr::input(0), Expr(0.0));
}

}  // namespace hetsynth
