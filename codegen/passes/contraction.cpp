#include "codegen/passes/contraction.h"

#include <algorithm>

namespace hetsynth::codegen {
namespace {

/// Below this number of rows or columns a product is a few dot products: loops fuse with their surroundings and do as
/// well.
constexpr int64_t thin = 4;

/// Joins dimensions that one stride can express in all three operands.
void merge(std::vector<ProductDim>& dims) {
  for (bool merged = true; merged;) {
    merged = false;
    for (size_t i = 0; i < dims.size() && !merged; ++i)
      for (size_t j = 0; j < dims.size() && !merged; ++j) {
        ProductDim& outer = dims[i];
        const ProductDim& inner = dims[j];
        bool fits = i != j && outer.a == inner.a * inner.extent && outer.w == inner.w * inner.extent &&
                    outer.c == inner.c * inner.extent;
        if (!fits) continue;
        std::vector<int> factors = outer.factors;
        factors.insert(factors.end(), inner.factors.begin(), inner.factors.end());
        outer = {outer.extent * inner.extent, inner.a, inner.w, inner.c, outer.name + inner.name, std::move(factors)};
        dims.erase(dims.begin() + long(j));
        merged = true;
      }
  }
}

/// Takes the largest dimension out; the rest are looped over.
ProductDim take_largest(std::vector<ProductDim>& dims) {
  if (dims.empty()) return {};
  auto largest = std::max_element(dims.begin(), dims.end(),
                                  [](const ProductDim& x, const ProductDim& y) { return x.extent < y.extent; });
  ProductDim taken = *largest;
  dims.erase(largest);
  return taken;
}

}  // namespace

bool is_product(const LocalOp& op) {
  const Expr& body = op.body;
  return !op.collective && !op.one_hot && op.reduction() == FactorKind::sum && op.inputs.size() == 2 &&
         body.kind() == ExprKind::mul && body.arg(0).kind() == ExprKind::input &&
         body.arg(1).kind() == ExprKind::input && body.arg(0).index() != body.arg(1).index();
}

std::optional<Contraction> match_contraction(const LocalOp& op, const Layouts& layouts) {
  if (!is_product(op)) return std::nullopt;
  for (const Operand& operand : op.inputs)
    if (operand.access.zero_outside) return std::nullopt;
  Contraction out;
  out.a = op.body.arg(0).index();
  out.w = op.body.arg(1).index();
  Address a = layouts.read(op, out.a), w = layouts.read(op, out.w), c = layouts.written(op);
  if (!a.affine() || !w.affine() || !c.affine()) return std::nullopt;
  std::vector<ProductDim> batch, rows, columns, sums;
  for (size_t f = 0; f < op.factors.size(); ++f) {
    if (op.extent(int(f)) == 1) continue;
    ProductDim dim{op.extent(int(f)), a.coefficients[f],  w.coefficients[f],
                   c.coefficients[f], op.factors[f].name, {int(f)}};
    bool in_a = mentions_factor(op.inputs[out.a].access, int(f)),
         in_w = mentions_factor(op.inputs[out.w].access, int(f));
    if (op.factors[f].reduced()) {
      if (!in_a || !in_w) return std::nullopt;
      sums.push_back(dim);
    } else {
      if (!in_a && !in_w) return std::nullopt;
      (in_a && in_w ? batch : in_a ? rows : columns).push_back(dim);
    }
  }
  bool no_terms = std::any_of(sums.begin(), sums.end(), [](const ProductDim& d) { return d.extent == 0; });
  if (no_terms) sums = {{0, 0, 0, 0, "none"}};
  merge(batch), merge(rows), merge(columns), merge(sums);
  out.m = take_largest(rows), out.n = take_largest(columns), out.k = take_largest(sums),
  out.batch = take_largest(batch);
  bool empty = out.m.extent == 0 || out.n.extent == 0 || out.k.extent == 0;
  if (!empty && (std::min(out.m.extent, out.n.extent) < thin || out.k.extent < 2)) return std::nullopt;
  for (std::vector<ProductDim>* rest : {&batch, &rows, &columns})
    out.outer.insert(out.outer.end(), rest->begin(), rest->end());
  out.outer_k = sums;
  out.a_offset = a.constant, out.w_offset = w.constant, out.c_offset = c.constant;
  out.a_turn = a.per_turn, out.w_turn = w.per_turn, out.c_turn = c.per_turn;
  return out;
}

}  // namespace hetsynth::codegen
