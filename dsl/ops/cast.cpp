#include "dsl/ops/cast.h"

#include "dsl/ir/trace.h"
#include "dsl/ops/support/shape_rules.h"

namespace hetsynth {
namespace {

class Cast final : public Operator {
 public:
  explicit Cast(DType to) : to_(to) {}

  std::string_view tag() const override { return "cast"; }
  std::string attributes() const override { return std::string(name(to_)); }

  TensorType infer(std::span<const TensorType> inputs) const override {
    if (!is_real(to_) || !is_real(inputs[0].dtype))
      throw UserError({.tag = "cast",
                       .message = "indices and numbers are not turned into each other",
                       .expected = "f32, " + half_names(),
                       .found = text(inputs[0]) + " to " + std::string(name(to_)),
                       .mend = "turn indices into vectors with embedding(table, indices)"});
    return {inputs[0].shape, to_};
  }

  Space space(std::span<const TensorType> inputs, const TensorType&) const override {
    Space space;
    Access access;
    for (size_t d = 0; d < inputs[0].shape.size(); ++d)
      access.dims.push_back(
          inputs[0].shape[d] == 1
              ? DimIndex{}
              : index_by(space.add_factor("i" + std::to_string(d), inputs[0].shape[d], FactorKind::parallel)));
    space.inputs = {access};
    space.output = access;
    return space;
  }

  /// Rounding what has 16 bits already changes nothing, so that back to float32 means the same.
  Expr body(std::span<const TensorType> inputs, const TensorType&) const override {
    return round_to(is_half(to_) ? to_ : inputs[0].dtype, Expr::input(0));
  }

  std::vector<Tensor> vjp(const VjpArguments& v) const override { return {v.output_gradient}; }

 private:
  DType to_;
};

}  // namespace

Tensor cast(Operand x, DType dtype) {
  CallScope scope(x.where);
  Tensor in = as_tensor(x);
  if (in.dtype() == dtype) return in;
  return emit(std::make_shared<Cast>(dtype), {in}, x.where);
}

// Rounding has no finite differences: tests/dsl/precision_test.cpp has its samples.
OperatorInfo cast_info() { return {"cast", "Conversion between float32, bf16 and fp16.", {}}; }

}  // namespace hetsynth
