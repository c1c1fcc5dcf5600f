#include "codegen/passes/column_products.h"

#include <map>
#include <optional>

#include "dsl/ir/weight_columns.h"

namespace hetsynth::codegen {
namespace {

/// Where the factor runs in a dimension of the call; nothing if it is none of the dimension's.
std::optional<ColumnProduct> within(const ProductDim& dim, ColumnProduct::Dim which, const LocalOp& op, int factor) {
  ColumnProduct out{.dim = which, .first = op.ranges[size_t(factor)].lo, .count = op.extent(factor)};
  bool found = false;
  for (const int own : dim.factors) {
    if (found) out.inner *= op.extent(own);
    found = found || own == factor;
  }
  return found ? std::optional(out) : std::nullopt;
}

std::optional<ColumnProduct> column_product(const Group& group, const LocalOp& op, const ColumnUse& use) {
  const Contraction& call = group.product;
  const std::pair<const ProductDim*, ColumnProduct::Dim> dims[] = {
      {&call.m, ColumnProduct::Dim::row}, {&call.n, ColumnProduct::Dim::column}, {&call.k, ColumnProduct::Dim::sum}};
  for (const auto& [dim, which] : dims)
    if (std::optional<ColumnProduct> out = within(*dim, which, op, use.factor)) {
      out->set = use.set;
      out->weight = use.weight < 0 ? -1 : use.weight == call.a ? 0 : 1;
      out->sums_forward = use.sums;
      return out;
    }
  return std::nullopt;
}

}  // namespace

void find_column_products(const Lowered& lowered, DeviceProgram& program) {
  const WeightColumns columns = weight_columns(*lowered.reference);
  program.column_sets = columns.extents;
  std::map<ValueId, const Group*> products;  // by result
  for (const Group& group : lowered.groups)
    if (group.kind == Group::Kind::product) products[lowered.local.ops[size_t(group.op())].result] = &group;
  for (size_t mark = 0; mark < program.marks.size(); ++mark) {
    const MarkedWork& work = program.marks[mark];
    if (work.parts.size() != 1) continue;
    const auto found = products.find(lowered.program->instructions[size_t(work.parts.front().instruction)].result);
    if (found == products.end()) continue;
    const LocalOp& op = lowered.local.ops[size_t(found->second->op())];
    const auto use = columns.uses.find(op.node);
    if (use == columns.uses.end()) continue;
    if (std::optional<ColumnProduct> product = column_product(*found->second, op, use->second)) {
      product->mark = int(mark);
      program.column_products.push_back(*product);
    }
  }
}

}  // namespace hetsynth::codegen
