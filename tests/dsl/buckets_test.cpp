// Which collectives of gradients travel together, and where in the program they start.
#include "dsl/spmd/buckets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

using ::testing::ElementsAre;

/// `count` parameters [width, width] with gradients x^T y, made in the order g0, g1, ..., and steps new0 = w0 - g0.
struct Gradients {
  explicit Gradients(int count, int64_t width = 8) {
    ProgramBuilder builder;
    builder.leaf("x", NodeKind::input, {6, width});
    builder.leaf("y", NodeKind::input, {6, width});
    for (int i = 0; i < count; ++i) builder.leaf(fmt::format("w{}", i), NodeKind::parameter, {width, width});
    for (int i = 0; i < count; ++i) {
      const NodeId gradient = builder.einsum(fmt::format("g{}", i), "bk,bn->kn", "x", "y");
      builder.program.nodes[size_t(gradient)].phase = Phase::backward;
    }
    for (int i = 0; i < count; ++i) {
      const std::string next = fmt::format("new{}", i);
      const NodeId updated = builder.general(next, "kn,kn->kn", {fmt::format("w{}", i), fmt::format("g{}", i)},
                                             Expr::input(0) - Expr::input(1));
      builder.program.nodes[size_t(updated)].phase = Phase::update;
      builder.update(fmt::format("w{}", i), next);
    }
    program = builder.program;
  }
  Program program;
};

/// By instruction in the new order: the tensor, with the letter of its bucket where it is in one.
std::vector<std::string> order(const Program& program, const SpmdProgram& plan) {
  const BucketedProgram out = gather_buckets(program, plan, DeviceKind::cuda);
  std::vector<std::string> names;
  for (size_t i = 0; i < out.program.instructions.size(); ++i) {
    const Instruction& instruction = out.program.instructions[i];
    names.push_back(program[out.program.values[size_t(instruction.result)].node].name);
    if (communicates(instruction.opcode)) names.back() += "+";
    if (out.bucket_of[i] >= 0) names.back() += fmt::format(" {}", char('A' + out.bucket_of[i]));
  }
  return names;
}

/// Data parallelism: every gradient is added up as soon as it is made; `updates_at_once`: and used.
SpmdProgram summed(const Program& program, int count, bool updates_at_once = false) {
  PlanBuilder plan(program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), y = plan.leaf("y", {Placement::sharded(0, batch)});
  std::vector<ValueId> weights, whole;
  for (int i = 0; i < count; ++i) weights.push_back(plan.leaf(fmt::format("w{}", i), {Placement::replicated()}));
  auto update = [&](int i) {
    plan.final(fmt::format("w{}", i), plan.compute(fmt::format("new{}", i), {weights[size_t(i)], whole[size_t(i)]}));
  };
  for (int i = 0; i < count; ++i) {
    whole.push_back(plan.all_reduce(plan.compute(fmt::format("g{}", i), {x, y}, {{"b", batch}}), 0));
    if (updates_at_once) update(i);
  }
  for (int i = 0; i < count && !updates_at_once; ++i) update(i);
  return plan.plan;
}

TEST(Buckets, SmallGradientsTravelTogetherWhenTheLastOfThemIsReady) {
  const Gradients g(3);
  EXPECT_THAT(order(g.program, summed(g.program, 3)),
              ElementsAre("g0", "g1", "g2", "g0+ A", "g1+ A", "g2+ A", "new0", "new1", "new2"));
}

TEST(Buckets, AreClosedWhenTheyAreFullWhileTheBackwardPassGoesOn) {
  // Four gradients of 1 MiB: of 4 MiB in all, a bucket takes 2 MiB.
  const Gradients g(4, 512);
  EXPECT_EQ(bucket_bytes(int64_t(4) << 20, DeviceKind::cuda), int64_t(2) << 20);
  EXPECT_THAT(order(g.program, summed(g.program, 4)),
              ElementsAre("g0", "g1", "g0+ A", "g1+ A", "g2", "g3", "g2+ B", "g3+ B", "new0", "new1", "new2", "new3"));
}

TEST(Buckets, WaitForNothingThatComesAfterTheFirstReader) {
  const Gradients g(2);
  EXPECT_THAT(order(g.program, summed(g.program, 2, true)), ElementsAre("g0", "g0+", "new0", "g1", "g1+", "new1"));
}

TEST(Buckets, HoldNothingThatTheBackwardPassNeeds) {
  const Gradients g(3);
  PlanBuilder plan(g.program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), y = plan.leaf("y", {Placement::sharded(0, batch)});
  const ValueId g0 = plan.all_reduce(plan.compute("g0", {x, y}, {{"b", batch}}), 0);
  const ValueId g1 = plan.all_reduce(plan.compute("g1", {x, y}, {{"b", batch}}), 0);
  const ValueId g2 = plan.all_reduce(plan.compute("g2", {x, y}, {{"b", batch}}), 0);
  // g2 reads the sum of g0, as gradients of earlier layers read those of later ones.
  for (Instruction& i : plan.plan.instructions)
    if (i.opcode == Opcode::compute && i.node == plan.node("g2")) i.operands.push_back(g0);
  const ValueId w1 = plan.leaf("w1", {Placement::replicated()}), w2 = plan.leaf("w2", {Placement::replicated()});
  plan.final("w1", plan.compute("new1", {w1, g1}));
  plan.final("w2", plan.compute("new2", {w2, g2}));
  EXPECT_THAT(order(g.program, plan.plan), ElementsAre("g0", "g0+", "g1", "g2", "g1+ A", "g2+ A", "new1", "new2"));
}

TEST(Buckets, AreOfOneAxis) {
  const Gradients g(4);
  PlanBuilder plan(g.program, {{"dp", 2}, {"tp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6}), other = plan.table("other", 1, 6, {0, 3, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch), Placement::replicated()});
  const ValueId y = plan.leaf("y", {Placement::sharded(0, batch), Placement::replicated()});
  const ValueId u = plan.leaf("x", {Placement::replicated(), Placement::sharded(0, other)});
  const ValueId v = plan.leaf("y", {Placement::replicated(), Placement::sharded(0, other)});
  std::vector<ValueId> whole;
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("g{}", i);
    whole.push_back(i % 2 ? plan.all_reduce(plan.compute(name, {u, v}, {{"", -1}, {"b", other}}), 1)
                          : plan.all_reduce(plan.compute(name, {x, y}, {{"b", batch}, {"", -1}}), 0));
  }
  for (int i = 0; i < 4; ++i) {
    const ValueId w = plan.leaf(fmt::format("w{}", i), {Placement::replicated(), Placement::replicated()});
    plan.final(fmt::format("w{}", i), plan.compute(fmt::format("new{}", i), {w, whole[size_t(i)]}));
  }
  EXPECT_THAT(order(g.program, plan.plan),
              ElementsAre("g0", "g1", "g2", "g0+ A", "g2+ A", "g3", "g1+ B", "g3+ B", "new0", "new1", "new2", "new3"));
}

}  // namespace
}  // namespace hetsynth::test
