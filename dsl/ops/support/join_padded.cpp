#include "dsl/ops/support/join_padded.h"

#include <optional>
#include <vector>

#include "dsl/ir/trace.h"
#include "dsl/ops/concat.h"
#include "dsl/ops/pad.h"

namespace hetsynth {
namespace {

/// `inner` stands at [begin, end) of dimension `dim`, zeros elsewhere.
struct Padded {
  Tensor inner;
  int dim;
  int64_t begin, end;
};

std::optional<Padded> as_padded(const Program& program, Tensor tensor) {
  const Node& node = program[tensor.node()];
  if (node.leaf() || node.op->tag() != "pad") return std::nullopt;
  const Shape& inner = program[node.inputs[0]].type.shape;
  for (size_t d = 0; d < inner.size(); ++d) {
    if (inner[d] == node.type.shape[d]) continue;
    const int64_t begin = -node.space.inputs[0].dims[d].offset;
    return Padded{Tensor(node.inputs[0]), static_cast<int>(d), begin, begin + inner[d]};
  }
  return std::nullopt;
}

/// The tensors that a concat along this dimension joins, or the tensor itself.
void append_parts(const Program& program, Tensor tensor, int dim, std::vector<Tensor>& parts) {
  const Node& node = program[tensor.node()];
  const bool joined =
      !node.leaf() && node.op->tag() == "concat" && node.phase != Phase::forward &&
      program[node.inputs[0]].type.shape[static_cast<size_t>(dim)] != node.type.shape[static_cast<size_t>(dim)];
  if (!joined) return parts.push_back(tensor);
  for (const NodeId input : node.inputs) parts.push_back(Tensor(input));
}

}  // namespace

Tensor join_padded(Tensor a, Tensor b) {
  const Program& program = Trace::current().program;
  std::optional<Padded> first = as_padded(program, a), second = as_padded(program, b);
  if (!first || !second || first->dim != second->dim) return {};
  if (second->end == first->begin) std::swap(first, second);
  if (first->end != second->begin) return {};
  const int dim = first->dim;
  const int64_t extent = program[a.node()].type.shape[static_cast<size_t>(dim)];
  std::vector<Tensor> parts;
  append_parts(program, first->inner, dim, parts);
  append_parts(program, second->inner, dim, parts);
  Tensor inner = concat(parts, dim, std::source_location{});
  if (first->begin == 0 && second->end == extent) return inner;
  return pad(Operand(inner, std::source_location{}), dim, first->begin, extent - second->end);
}

}  // namespace hetsynth
