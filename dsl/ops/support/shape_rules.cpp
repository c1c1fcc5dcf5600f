#include "dsl/ops/support/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/counted.h"
#include "dsl/ir/trace.h"

namespace hetsynth {

int normalize_dim(std::string_view tag, int dim, const Shape& shape) {
  int rank = int(shape.size());
  int at = dim < 0 ? dim + rank : dim;
  if (at < 0 || at >= rank)
    throw UserError(
        {.tag = std::string(tag),
         .message = fmt::format("there is no dimension {}", dim),
         .expected = rank == 0 ? "a tensor with dimensions" : fmt::format("a dimension from {} to {}", -rank, rank - 1),
         .found = rank == 0 ? "a scalar" : text(shape)});
  return at;
}

std::vector<int> normalize_dims(std::string_view tag, const std::vector<int>& dims, const Shape& shape) {
  std::vector<int> out;
  for (int dim : dims) out.push_back(normalize_dim(tag, dim, shape));
  if (dims.empty())
    for (int d = 0; d < int(shape.size()); ++d) out.push_back(d);
  std::sort(out.begin(), out.end());
  if (auto twice = std::adjacent_find(out.begin(), out.end()); twice != out.end())
    throw UserError({.tag = std::string(tag),
                     .message = fmt::format("dimension {} is named twice", *twice),
                     .expected = "every dimension at most once",
                     .mend = "remember that negative dimensions count from the end"});
  return out;
}

Shape broadcast_shapes(std::string_view tag, const std::vector<Shape>& shapes) {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape out(rank, 1);
  for (const Shape& shape : shapes)
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& extent = out[rank - shape.size() + d];
      if (extent != 1 && shape[d] != 1 && extent != shape[d])
        throw UserError({.tag = std::string(tag),
                         .message = "shapes do not broadcast: " + joined(shapes, " with "),
                         .expected = "extents that are equal or 1, counted from the last dimension",
                         .found = fmt::format("{} against {}", extent, shape[d]),
                         .mend = "reshape one of them so that the dimensions line up"});
      extent = std::max(extent, shape[d]);
    }
  return out;
}

void require_dtype(std::string_view tag, size_t position, const TensorType& type, DType expected) {
  if (type.dtype == expected) return;
  bool wants_float = expected == DType::f32;
  if (wants_float && is_half(type.dtype))
    throw UserError(
        {.tag = std::string(tag),
         .message = fmt::format("argument {} is {}, which only products take", position + 1, name(type.dtype)),
         .expected = "f32",
         .found = text(type),
         .mend = "cast it back: cast(x, f32)"});
  throw UserError(
      {.tag = std::string(tag),
       .message =
           fmt::format("argument {} must hold {}", position + 1, wants_float ? "numbers, not indices" : "indices"),
       .expected = std::string(name(expected)),
       .found = text(type),
       .mend = wants_float
                   ? "turn indices into vectors with embedding(table, indices), or into numbers with to_float(indices)"
                   : "pass an integer input, such as the tokens or targets of text_batch"});
}

void require_products(std::string_view tag, std::span<const TensorType> inputs) {
  for (size_t j = 0; j < 2; ++j)
    if (!is_half(inputs[j].dtype)) require_dtype(tag, j, inputs[j], DType::f32);
  if (inputs[0].dtype != inputs[1].dtype) {
    const size_t half = is_half(inputs[0].dtype) ? 0 : 1;
    throw UserError({.tag = std::string(tag),
                     .message = "the arguments have different element types",
                     .expected = "both of one type: f32, " + half_names(),
                     .found = text(inputs[0]) + " and " + text(inputs[1]),
                     .mend = fmt::format("cast argument {}: cast(x, {})", 2 - half, name(inputs[half].dtype))});
  }
}

void require_rank_at_least(std::string_view tag, size_t position, const TensorType& type, size_t rank) {
  if (type.shape.size() >= rank) return;
  throw UserError({.tag = std::string(tag),
                   .message = fmt::format("argument {} has too few dimensions", position + 1),
                   .expected = counted(int64_t(rank), "dimension") + " or more",
                   .found = text(type)});
}

int64_t scan_blocks(int64_t extent) {
  constexpr int64_t longest_direct = 64;
  int64_t blocks = 1;
  if (extent <= longest_direct) return blocks;
  for (int64_t d = 1; d * d <= extent; ++d)
    if (extent % d == 0) blocks = d;
  return blocks;
}

std::string joined(const std::vector<Shape>& shapes, std::string_view separator) {
  std::string out;
  for (const Shape& shape : shapes) out += (out.empty() ? "" : std::string(separator)) + text(shape);
  return out;
}

void fail_call(Diagnostic diagnostic, const std::vector<Tensor>& arguments) {
  const Trace& trace = Trace::current();
  throw trace.at_call(UserError(std::move(diagnostic)), arguments, trace.scope);
}

void require_index_range(std::string_view tag, Tensor indices, int64_t extent, std::string_view what) {
  const Node& node = Trace::current().program[indices.node()];
  if (node.kind != NodeKind::input && !is_constant_data(node)) return;
  if (node.data.lowest.value_or(0) < 0)
    fail_call(
        {.tag = std::string(tag),
         .message = fmt::format("{} has entries from 0 on, but the indices begin below", what),
         .expected = "indices of 0 and more",
         .found = fmt::format("{} takes {}", node.name, text_of_values(node.data, node.type.dtype)),
         .mend = fmt::format("declare the input with {{.classes = {}}}, or add what makes them begin at 0", extent)},
        {indices});
  if (node.data.classes <= extent) return;
  fail_call({.tag = std::string(tag),
             .message = fmt::format("{} has {} entries, but the indices reach {}", what, extent, node.data.classes - 1),
             .expected = fmt::format("at least {} entries", node.data.classes),
             .found = std::to_string(extent),
             .mend = fmt::format("make it {} long, or read data of {} classes or tokens", node.data.classes, extent)},
            {indices});
}

}  // namespace hetsynth
