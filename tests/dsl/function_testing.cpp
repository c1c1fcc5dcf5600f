#include "tests/dsl/function_testing.h"

#include <gtest/gtest.h>

#include "dsl/ops/add.h"
#include "dsl/ops/mul.h"
#include "dsl/ops/sum.h"
#include "dsl/transform/differentiate.h"
#include "dsl/transform/unroll.h"
#include "tests/dsl/operator_testing.h"

namespace hetsynth {

Function::Function(const std::vector<Shape>& shapes, const Build& build) {
  Trace trace("test.cpp");
  std::vector<Tensor> leaves;
  const auto here = std::source_location::current();
  const auto leaf = [&](const Shape& shape) {
    return trace.add_leaf(NodeKind::parameter, "leaf" + std::to_string(trace.program.nodes.size()), {shape, DType::f32},
                          here);
  };
  for (const Shape& shape : shapes) leaves.push_back(leaf(shape));
  Tensor loss;
  for (Tensor out : build(leaves)) {
    outputs.push_back(out.node());
    Tensor weighed = sum(out * leaf(out.shape()));
    loss = loss.defined() ? loss + weighed : weighed;
  }
  total = loss.node();
  trace.phase = Phase::backward;
  for (Tensor gradient : hetsynth::gradients(loss, leaves)) gradients.push_back(gradient.node());
  for (Tensor t : leaves) inputs.push_back(t.node());
  program = trace.program;
  std::mt19937 random(7);
  values = spread_leaves(program, random);
  for (auto& [node, array] : values)
    for (double& value : array.values) value *= 0.5;
}

void expect_right_gradients(Function f) {
  const std::vector<Array> at = f.run();
  for (size_t j = 0; j < f.inputs.size(); ++j) {
    ASSERT_GE(f.gradients[j], 0) << "input " << j;
    Array& input = f.values.at(f.inputs[j]);
    for (size_t i = 0; i < input.values.size(); ++i) {
      constexpr double h = 1e-5;
      const double value = input.values[i];
      input.values[i] = value + h;
      const double up = f.run()[static_cast<size_t>(f.total)].values[0];
      input.values[i] = value - h;
      const double down = f.run()[static_cast<size_t>(f.total)].values[0];
      input.values[i] = value;
      // The third derivative gives 1e-10 of it, rounding 1e-16 / h of the loss.
      EXPECT_NEAR(at[static_cast<size_t>(f.gradients[j])].values[i], (up - down) / (2 * h), 1e-7)
          << "input " << j << " element " << i;
    }
  }
  Bindings leaves;  // by name: unrolling numbers nodes anew
  const Program flat = unrolled(f.program);
  for (const Node& node : flat.nodes)
    for (const Node& leaf : f.program.nodes)
      if (node.leaf() && leaf.leaf() && leaf.name == node.name) leaves[node.id] = f.values.at(leaf.id);
  const std::vector<Array> values = interpret(flat, leaves, {});
  std::mt19937 random(11);
  for (const Node& node : flat.nodes) {
    if (node.leaf()) continue;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(check_splits(node, values, {}, random), "") << node.tag();
    EXPECT_EQ(check_linearity(node, values, {}, random), "") << node.tag();
    EXPECT_EQ(check_type(node, values), "") << node.tag();
  }
}

}  // namespace hetsynth
