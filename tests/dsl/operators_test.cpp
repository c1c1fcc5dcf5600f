// Every operator of the list: gradient against finite differences, and space, body, type and linearity against each
// other.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "tests/dsl/operator_testing.h"

namespace hetsynth {
namespace {

struct Case {
  std::string name;
  OperatorSample sample;
};

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const OperatorInfo& info : operator_list())
    for (size_t i = 0; i < info.samples.size(); ++i)
      out.push_back({fmt::format("{}_{}", info.name, i), info.samples[i]});
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << " " << c.sample.op->attributes();
  for (const TensorType& type : c.sample.inputs) *out << " " << text(type);
}

class EveryOperator : public ::testing::TestWithParam<Case> {};

/// sum(weight * (f(x + h) - f(x - h))) / 2h, differences first, so that large constants (masks) do not swamp them.
double finite_difference(const TracedSample& traced, const Bindings& leaves, NodeId input, size_t element) {
  constexpr double h = 1e-5;
  const Node& node = traced.program[traced.output];
  auto run = [&](double offset) {
    std::vector<LocalArray> inputs;
    for (NodeId id : node.inputs) {
      LocalArray in{leaves.at(id), std::vector<int64_t>(leaves.at(id).shape.size(), 0)};
      if (id == input) in.array.values[element] += offset;
      inputs.push_back(std::move(in));
    }
    return evaluate(node.space, node.body, inputs, full_ranges(node.space), node.type.shape, {.seed = 5, .step = 3})
        .array;
  };
  Array up = run(h), down = run(-h);
  const Array& weight = leaves.at(traced.weight);
  double total = 0;
  for (size_t i = 0; i < up.values.size(); ++i) total += weight.values[i] * (up.values[i] - down.values[i]);
  return total / (2 * h);
}

TEST_P(EveryOperator, GradientEqualsFiniteDifferences) {
  const OperatorSample& sample = GetParam().sample;
  TracedSample traced = trace_sample(sample);
  ASSERT_EQ(traced.gradients.size(), traced.inputs.size());
  std::mt19937 random(2024);
  Bindings leaves = spread_leaves(traced, sample, random);
  std::vector<Array> values = interpret(traced.program, leaves, {.seed = 5, .step = 3});
  for (size_t j = 0; j < traced.inputs.size(); ++j) {
    for (size_t i = 0; i < values[traced.inputs[j]].values.size(); ++i) {
      if (sample.inputs[j].dtype == DType::i32) continue;
      double expected = finite_difference(traced, leaves, traced.inputs[j], i);
      double found = traced.gradients[j] < 0 ? 0 : values[traced.gradients[j]].values.at(i);
      // A central difference is off by h^2/6 times the third derivative (below 1e-8 here) and by rounding, 1e-16 * |f|
      // / h = 1e-11 * |f|.
      EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::abs(expected))) << "input " << j << " element " << i;
    }
    if (traced.gradients[j] >= 0) {
      EXPECT_EQ(traced.program[traced.gradients[j]].type, sample.inputs[j]) << "gradient of input " << j;
    }
  }
}

/// The sample's operator and those of its gradient.
TEST_P(EveryOperator, SpaceBodyAndTypeAgree) {
  const OperatorSample& sample = GetParam().sample;
  TracedSample traced = trace_sample(sample);
  EXPECT_TRUE(rc::check([&](uint32_t seed) {
    std::mt19937 random(seed);
    EvaluationContext context{.seed = seed, .step = 3};
    std::vector<Array> values = interpret(traced.program, spread_leaves(traced, sample, random), context);
    for (const Node& node : traced.program.nodes) {
      if (node.leaf()) continue;
      std::string tag(node.tag());
      for (const std::string& found : {check_splits(node, values, context, random),
                                       check_linearity(node, values, context, random), check_type(node, values)})
        if (!found.empty()) RC_FAIL(tag + ": " + found);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(List, EveryOperator, ::testing::ValuesIn(all_cases()), case_name);

TEST(OperatorList, NamesAreUniqueAndEveryPrimitiveHasSamples) {
  std::set<std::string> names;
  for (const OperatorInfo& info : operator_list()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty()) << info.name;
  }
  EXPECT_GE(all_cases().size(), 60u);
}

}  // namespace
}  // namespace hetsynth
