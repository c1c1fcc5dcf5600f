// Every operator of the list, its samples cut along every factor that may be: the plan is proved.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/ir/operator.h"
#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

/// One operator between input leaves.
Program program_of(const OperatorSample& sample) {
  ProgramBuilder p;
  std::vector<std::string> inputs;
  for (const TensorType& type : sample.inputs) {
    inputs.push_back(fmt::format("in{}", inputs.size()));
    p.leaf(inputs.back(), NodeKind::input, type.shape, type.dtype);
  }
  TensorType type = sample.op->infer(sample.inputs);
  NodeId out = p.custom("out", inputs, sample.op->space(sample.inputs, type), sample.op->body(sample.inputs, type),
                        type.shape);
  p.program.nodes[size_t(out)].type = type;
  return p.program;
}

/// The operator split along one factor, its operands cut where the factor cuts them; partial results are reduced.
SpmdProgram split(const Program& program, int factor) {
  const Node& node = program.nodes.back();
  PlanBuilder p(program, {{"dp", 3}});
  int64_t size = node.space.factors[size_t(factor)].size;
  int table = p.table("shares", 0, size, {0, size / 3, size / 3, size});
  std::vector<ValueId> operands;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    const Node& leaf = program[node.inputs[j]];
    auto cut = cut_of(node.space, node.space.inputs[j], leaf.type.shape, factor);
    operands.push_back(p.leaf(leaf.name, {cut ? Placement::sharded(cut->dim, table) : Placement::replicated()}));
  }
  ValueId out = p.compute("out", operands, {{node.space.factors[size_t(factor)].name, table}});
  Placement placed = p.plan.values[size_t(out)].placements[0];
  if (placed.kind == Placement::Kind::partial) p.all_reduce(out, 0, placed.reduce);
  return p.plan;
}

class OperatorProof : public ::testing::TestWithParam<std::string> {};

TEST_P(OperatorProof, EverySplitIsProved) {
  int proofs = 0;
  for (const OperatorInfo& info : operator_list()) {
    if (info.name != GetParam()) continue;
    for (const OperatorSample& sample : info.samples) {
      Program program = program_of(sample);
      const Node& node = program.nodes.back();
      for (int f = 0; f < int(node.space.factors.size()); ++f) {
        const Factor& factor = node.space.factors[size_t(f)];
        if (factor.kind == FactorKind::whole) continue;
        if (!factor.reduced() && !cut_of(node.space, node.space.output, node.type.shape, f)) continue;
        Verification result = verify(program, split(program, f));
        EXPECT_EQ(name(result.verdict), "proved")
            << factor.name << " of " << text(node.space) << ": " << text(node.body) << "\n"
            << result.summary;
        ++proofs;
      }
    }
  }
  if (proofs == 0) GTEST_SKIP() << "nothing of it can be split";
}

std::vector<std::string> names_with_samples() {
  std::vector<std::string> names;
  for (const OperatorInfo& info : operator_list())
    if (!info.samples.empty()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(List, OperatorProof, ::testing::ValuesIn(names_with_samples()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hetsynth::test
