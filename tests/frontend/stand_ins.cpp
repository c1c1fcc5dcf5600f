// Functions that the tests' models call: they make tensors and fail as operators do, without depending on any operator.
#include <fmt/format.h>

#include <stdexcept>

#include "dsl/ir/trace.h"

namespace hetsynth {
namespace {

/// Element-wise, refuses shapes that differ.
class TestProduct : public Operator {
 public:
  std::string_view tag() const override { return "product"; }
  TensorType infer(std::span<const TensorType> inputs) const override {
    if (inputs[0] != inputs[1])
      throw UserError({.tag = "product",
                       .message = fmt::format("shapes differ: {} and {}", text(inputs[0].shape), text(inputs[1].shape)),
                       .expected = "equal shapes"});
    return inputs[0];
  }
  Space space(std::span<const TensorType>, const TensorType& output) const override {
    Space space;
    Access access;
    for (int64_t extent : output.shape)
      access.dims.push_back(index_by(space.add_factor("f", extent, FactorKind::parallel)));
    space.inputs = {access, access};
    space.output = access;
    return space;
  }
  Expr body(std::span<const TensorType>, const TensorType&) const override { return Expr::input(0) * Expr::input(1); }
  std::vector<Tensor> vjp(const VjpArguments&) const override { return {}; }
};

}  // namespace

Tensor leaf(const std::vector<int64_t>& shape, std::source_location where = std::source_location::current());
Tensor leaf(const std::vector<int64_t>& shape, std::source_location where) {
  return Trace::current().add_leaf(NodeKind::parameter, "", {shape, DType::f32}, where);
}

Tensor product(Operand a, Operand b, std::source_location where);
Tensor product(Operand a, Operand b, std::source_location where) {
  return emit(std::make_shared<TestProduct>(), {a.tensor, b.tensor}, where);
}
Tensor operator%(Operand a, Operand b);
Tensor operator%(Operand a, Operand b) { return product(a, b, a.where); }

int64_t test_option(const char* name, int64_t fallback);
int64_t test_option(const char* name, int64_t fallback) {
  Trace& trace = Trace::current();
  trace.settings_used.insert(name);
  auto given = trace.settings.find(name);
  int64_t value = given == trace.settings.end() ? fallback : std::stoll(given->second);
  trace.program.options.push_back({name, std::to_string(value), ""});
  return value;
}

void internal_fault();
void internal_fault() { HETSYNTH_CHECK(1 + 1 == 3, "arithmetic holds"); }

}  // namespace hetsynth
