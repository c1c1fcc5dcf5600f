// Plans of which no program can be generated are told from those that may be wrong and still are run.
#include "codegen/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

struct FitOfPlan : ::testing::Test {
  Instruction& at(Opcode opcode, const std::string& node) {
    return plan.instructions.at(size_t(find(plan, program, opcode, node)));
  }
  std::string why() const {
    for (int rank = 0; rank < 2; ++rank)
      if (std::string text = codegen::why_not_generated(program, plan, rank); !text.empty()) return text;
    return "";
  }
  const Program program = two_layers();
  SpmdProgram plan = data_parallel(program);
};

TEST_F(FitOfPlan, RightOnesFit) {
  EXPECT_EQ(why(), "");
  plan = tensor_parallel(program);
  EXPECT_EQ(why(), "");
  for (const Program& model : {mlp_program(), gpt_program()}) {
    const Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
    const SpmdProgram of_model = data_parallel_plan(model, cluster, RatioRule::proportional).program;
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(codegen::why_not_generated(model, of_model, rank), "");
  }
}

/// Wrong, but what it reads and writes is there.
TEST_F(FitOfPlan, WrongOnesMayFit) {
  at(Opcode::all_reduce, "d_w1").reduce = ReduceOp::max;
  EXPECT_EQ(why(), "");
}

TEST_F(FitOfPlan, OperandsHaveTheShapeThatIsRead) {
  at(Opcode::compute, "w1_new").operands[1] = at(Opcode::compute, "w2_new").operands[1];
  EXPECT_THAT(why(), HasSubstr("compute of w1_new@"));
  EXPECT_THAT(why(), HasSubstr(" is a f32[6,5], m1_new a f32[4,6]"));
}

TEST_F(FitOfPlan, NothingIsReadThatIsNotHeld) {
  at(Opcode::compute, "h").splits[0] = {};
  EXPECT_THAT(why(), HasSubstr("elements 0 to 8 of dimension 0 of x@"));
  EXPECT_THAT(why(), HasSubstr("are asked for, of which rank 0 holds 0 to 3"));
}

TEST_F(FitOfPlan, NothingIsMadeThatIsNotHeld) {
  Value& a = plan.values[size_t(at(Opcode::compute, "a").result)];
  plan.tables.push_back({"other", 0, 8, {0, 2, 8}});
  a.placements[0].table = int(plan.tables.size()) - 1;
  EXPECT_THAT(why(), HasSubstr("compute of a@"));
}

TEST_F(FitOfPlan, CollectivesGiveWhatTheyMove) {
  const Instruction& reduce = at(Opcode::all_reduce, "d_w2");
  plan.tables.push_back({"other", 0, 6, {0, 2, 6}});
  plan.values[size_t(reduce.result)].placements[0] = Placement::sharded(0, int(plan.tables.size()) - 1);
  EXPECT_THAT(why(), HasSubstr("all_reduce of d_w2@"));
  EXPECT_THAT(why(), HasSubstr("of dimension 0 rank 0 holds 0 to 6 before and 0 to 2 after it"));
}

TEST_F(FitOfPlan, NewContentsLieWhereTheOldOnesDid) {
  plan.finals[0].second = plan.finals[1].second;
  EXPECT_THAT(why(), HasSubstr(" is a f32["));
}

}  // namespace
}  // namespace hetsynth::test
