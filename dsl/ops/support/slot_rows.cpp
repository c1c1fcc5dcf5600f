#include "dsl/ops/support/slot_rows.h"

#include <fmt/format.h>

#include "dsl/ops/support/pointwise.h"

namespace hetsynth {
namespace {

/// The three operators are closed under differentiation: each one's gradients are the other two.
enum class SlotKind {
  to_slots,    ///< out[v, d] = sum over s of [slot(s) = v] w(s) in(s, d)
  from_slots,  ///< out[s, d] = sum over v of [slot(s) = v] w(s) in(v, d)
  products,    ///< out[s] = sum over v, d of [slot(s) = v] in0(v, d) in1(s, d)
};

/// Factors in the order of the output: groups, then s or v, then d; what is summed comes last.
struct Factors {
  Space space;
  Access per_token, table, rows;  ///< [G..., S], [G..., V, D], [G..., S, D]
  int slot = 0;

  Factors(SlotKind kind, const Shape& rows_shape, int64_t slot_count) {
    Access groups;
    const size_t count = rows_shape.size() - 2;
    for (size_t g = 0; g < count; ++g)
      groups.dims.push_back(index_by(space.add_factor(fmt::format("g{}", g), rows_shape[g], FactorKind::parallel)));
    const FactorKind s_kind = kind == SlotKind::to_slots ? FactorKind::sum : FactorKind::parallel;
    const FactorKind v_kind = kind == SlotKind::to_slots ? FactorKind::parallel : FactorKind::sum;
    const FactorKind d_kind = kind == SlotKind::products ? FactorKind::sum : FactorKind::parallel;
    const int s = space.add_factor("s", rows_shape[count], s_kind);
    slot = space.add_factor("v", slot_count, v_kind);
    const int d = space.add_factor("d", rows_shape[count + 1], d_kind);
    per_token = table = rows = groups;
    per_token.dims.push_back(index_by(s));
    for (int f : {slot, d}) table.dims.push_back(index_by(f));
    for (int f : {s, d}) rows.dims.push_back(index_by(f));
  }
};

class SlotRows final : public Operator {
 public:
  /// `weighted`: a third operand holds the weights; products have none.
  SlotRows(SlotKind kind, bool weighted, int64_t slot_count)
      : kind_(kind), weighted_(weighted), slot_count_(slot_count) {}

  std::string_view tag() const override {
    constexpr std::string_view tags[] = {"rows_to_slots", "rows_from_slots", "slot_products"};
    return tags[int(kind_)];
  }
  std::string attributes() const override {
    return fmt::format("{} slots{}", slot_count_, weighted_ ? " weighted" : "");
  }

  TensorType infer(std::span<const TensorType> inputs) const override {
    Shape shape = inputs[0].shape;
    if (kind_ == SlotKind::to_slots) shape[shape.size() - 2] = slot_count_;
    if (kind_ != SlotKind::to_slots) shape = inputs[1].shape;
    if (kind_ == SlotKind::from_slots) shape.push_back(inputs[0].shape.back());
    return {shape, DType::f32};
  }

  Space space(std::span<const TensorType> inputs, const TensorType& output) const override {
    const Shape& rows = kind_ == SlotKind::to_slots     ? inputs[0].shape
                        : kind_ == SlotKind::from_slots ? output.shape
                                                        : inputs[2].shape;
    Factors f(kind_, rows, slot_count_);
    f.space.inputs = {kind_ == SlotKind::to_slots ? f.rows : f.table, f.per_token};
    if (weighted_) f.space.inputs.push_back(f.per_token);
    if (kind_ == SlotKind::products) f.space.inputs.push_back(f.rows);
    f.space.output = kind_ == SlotKind::to_slots ? f.table : kind_ == SlotKind::from_slots ? f.rows : f.per_token;
    return f.space;
  }

  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    const bool product = weighted_ || kind_ == SlotKind::products;
    Expr value = product ? Expr::input(2) * Expr::input(0) : Expr::input(0);
    const int slot = int(inputs[1].shape.size());  // after the groups and s
    return select(equal(Expr::input(1), Expr::factor(slot)), value, Expr(0.0));
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override {
    const Tensor in = v.inputs[0], slots = v.inputs[1], dy = v.output_gradient;
    const Tensor weights = weighted_ ? v.inputs[2] : Tensor();
    std::vector<Tensor> out;
    switch (kind_) {
      case SlotKind::to_slots:
        out = {rows_from_slots(dy, slots, weights), Tensor()};
        if (weighted_) out.push_back(products(dy, slots, in));
        break;
      case SlotKind::from_slots:
        out = {rows_to_slots(dy, slots, weights, slot_count_), Tensor()};
        if (weighted_) out.push_back(products(in, slots, dy));
        break;
      case SlotKind::products:
        out = {rows_to_slots(v.inputs[2], slots, dy, slot_count_), Tensor(), rows_from_slots(in, slots, dy)};
        break;
    }
    return out;
  }

  static Tensor products(Tensor table, Tensor slots, Tensor rows) {
    return emit(std::make_shared<SlotRows>(SlotKind::products, false, table.size(-2)), {table, slots, rows});
  }

 private:
  SlotKind kind_;
  bool weighted_;
  int64_t slot_count_;
};

Tensor emit_rows(SlotKind kind, Tensor in, Tensor slots, Tensor weights, int64_t slot_count) {
  std::vector<Tensor> inputs = {in, slots};
  if (weights.defined()) inputs.push_back(weights);
  return emit(std::make_shared<SlotRows>(kind, weights.defined(), slot_count), inputs);
}

OperatorSample sample(SlotKind kind, bool weighted, const Shape& groups, int64_t s, int64_t v, int64_t d) {
  auto with = [&](std::initializer_list<int64_t> tail, DType dtype = DType::f32) {
    Shape shape = groups;
    shape.insert(shape.end(), tail);
    return TensorType{shape, dtype};
  };
  std::vector<TensorType> inputs = {kind == SlotKind::to_slots ? with({s, d}) : with({v, d}), with({s}, DType::i32)};
  if (weighted) inputs.push_back(with({s}));
  if (kind == SlotKind::products) inputs.push_back(with({s, d}));
  // One below and one above the slots: rows that have none.
  return {std::make_shared<SlotRows>(kind, weighted, v), inputs, {{}, {-1, double(v)}}};
}

}  // namespace

Tensor rows_to_slots(Tensor rows, Tensor slots, Tensor weights, int64_t slot_count) {
  return emit_rows(SlotKind::to_slots, rows, slots, weights, slot_count);
}

Tensor rows_from_slots(Tensor table, Tensor slots, Tensor weights) {
  return emit_rows(SlotKind::from_slots, table, slots, weights, table.size(-2));
}

std::vector<OperatorSample> rows_to_slots_samples() {
  return {sample(SlotKind::to_slots, false, {2}, 5, 4, 3), sample(SlotKind::to_slots, true, {}, 6, 5, 2)};
}

std::vector<OperatorSample> rows_from_slots_samples() {
  return {sample(SlotKind::from_slots, true, {2}, 5, 4, 3), sample(SlotKind::from_slots, false, {}, 6, 5, 2),
          sample(SlotKind::products, false, {3}, 4, 5, 2)};
}

}  // namespace hetsynth
