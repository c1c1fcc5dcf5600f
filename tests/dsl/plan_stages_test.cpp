// Pipeline stages, and tables that differ between the groups of another axis, as plan files say them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "dsl/spmd/plan.h"
#include "tests/support/changed_plan.h"
#include "tests/support/pipelined_plan.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

/// The fixture's plan on two stages of two devices: y and the update on stage 0, the loss on stage 1, rows cut
/// differently on each.
Plan staged(const Program& reference) {
  Plan plan = testing::plan_test_plan(reference);
  plan.program = test::pipelined_plan(reference, plan.program, 2, {-1, 0, 0, 1, 0});
  BoundaryTable& rows = plan.program.tables[0];
  rows.by = 0;
  rows.rows = {rows.bounds, {0, 1, 6}};
  rows.bounds.clear();
  for (const char* name : {"third", "fourth"}) plan.devices.push_back({name, DeviceKind::cpu, "", ""});
  plan.ratios.clear();
  plan.prediction.devices.clear();
  return plan;
}

struct PlanStages : testing::ChangedPlan {
  PlanStages() : ChangedPlan(staged) {}
};

TEST_F(PlanStages, ComeBackAsTheyWere) {
  const Plan again = plan_from_json(json, "p.json", reference);
  EXPECT_EQ(again.program, canonical(plan.program));
  EXPECT_EQ(plan_to_json(again, reference), json);
}

TEST_F(PlanStages, AreWrittenForPeople) {
  for (const char* line : {
           R"x({"name": "rows", "axis": "dp", "by": "pp", "extent": 6, "bounds": [[0, 4, 6], [0, 1, 6]]})x",
           R"x({"value": "w@R", "node": "w", "placement": {"pp": "stage(0)", "dp": "replicated"}})x",
           R"x("split": {"pp": "stage(0)", "dp": "split(i, rows)"})x",
           R"x({"op": "send", "result": "y@S0@stage1", "axis": "pp", "root": 0, "to": 1, "from": ["y@S0"], )x"
           R"x("placement": {"pp": "stage(1)", "dp": "sharded(0, rows)"}, "cause": "the next stage reads it"})x",
       })
    EXPECT_THAT(json, HasSubstr(line));
  const std::string listing = text(plan.program, reference);
  EXPECT_THAT(listing, HasSubstr("table rows over dp by pp: [0,4,6] [0,1,6]\n"));
  EXPECT_THAT(listing, HasSubstr("y@S0@stage1 = send(y@S0) over pp from 0 to 1  # the next stage reads it\n"));
  EXPECT_THAT(listing, HasSubstr("loss@P+ = compute loss(y@S0@stage1) on pp 1 split dp:a by rows\n"));
  EXPECT_EQ(text(plan.program.mesh, {Placement::stage(1), Placement::sharded(0, 0)}), "pp:@1,dp:S0");
}

TEST_F(PlanStages, MistakesAreNamed) {
  EXPECT_THAT(error_of("\"pp\": \"stage(0)\", \"dp\": \"replicated\"", "\"pp\": \"stage(2)\", \"dp\": \"replicated\""),
              AllOf(HasSubstr("axis \"pp\" has no stage \"2\""), HasSubstr("a number from 0 to 1")));
  EXPECT_THAT(error_of("\"stage(1)\"", "\"stage(-1)\""), HasSubstr("axis \"pp\" has no stage \"-1\""));
  EXPECT_THAT(error_of("\"stage(1)\"", "\"stage(1e9)\""), HasSubstr("axis \"pp\" has no stage \"1e9\""));
  EXPECT_THAT(error_of("\"stage(1)\"", "\"stage\""), HasSubstr("\"stage(number)\""));
  EXPECT_THAT(error_of("\"to\": 1", "\"to\": 2"), HasSubstr("the number is out of range"));
  EXPECT_THAT(error_of(", \"to\": 1", ""), HasSubstr("\"to\""));
  EXPECT_THAT(error_of("\"root\": 0, \"to\"", "\"from_stage\": 0, \"to\""), HasSubstr("\"root\""));
  EXPECT_THAT(error_of("\"by\": \"pp\"", "\"by\": \"dp\""),
              HasSubstr("a table cannot differ along the axis that it cuts over"));
  EXPECT_THAT(error_of("\"by\": \"pp\"", "\"by\": \"tp\""), HasSubstr("unknown mesh axis \"tp\""));
  EXPECT_THAT(
      error_of("[[0, 4, 6], [0, 1, 6]]", "[[0, 4, 6]]"),
      AllOf(HasSubstr("the table has the wrong number of rows"), HasSubstr("2: one per device of axis \"pp\"")));
  EXPECT_THAT(error_of("[0, 1, 6]]", "[0, 1, 5]]"), HasSubstr("the table does not cover its extent"));
  EXPECT_THAT(error_of("[0, 1, 6]]", "[0, 1]]"), HasSubstr("the table has the wrong number of bounds"));
  EXPECT_THAT(error_of("[[0, 4, 6], [0, 1, 6]]", "[0, 4, 6]"), HasSubstr("the table has the wrong number of rows"));
}

TEST_F(PlanStages, SayWhatEveryRankHoldsAndDoes) {
  const SpmdProgram& p = plan.program;
  const Placements rows_on_stage_1{Placement::stage(1), Placement::sharded(0, 0)};
  EXPECT_FALSE(holds(p.mesh, rows_on_stage_1, 1));
  EXPECT_TRUE(holds(p.mesh, rows_on_stage_1, 2));
  EXPECT_EQ(local_shape(p, rows_on_stage_1, {6, 8}, 0), (Shape{0, 0}));
  EXPECT_EQ(local_shape(p, rows_on_stage_1, {6, 8}, 2), (Shape{1, 8}));  // by the second row of the table
  EXPECT_EQ(local_shape(p, rows_on_stage_1, {6, 8}, 3), (Shape{5, 8}));
  EXPECT_EQ(bounds_in_elements(p, 0, 12, 0), (std::vector<int64_t>{0, 8, 12}));
  EXPECT_EQ(bounds_in_elements(p, 0, 12, 2), (std::vector<int64_t>{0, 2, 12}));
  for (const Instruction& i : p.instructions)
    for (int rank = 0; rank < 4; ++rank) {
      const bool second = rank >= 2;
      const bool expected = i.opcode == Opcode::compute      ? i.splits[0].stage == second
                            : i.opcode == Opcode::all_reduce ? second
                                                             : true;
      EXPECT_EQ(takes_part(p, i, rank), expected) << name(i.opcode) << " on " << rank;
    }
}

}  // namespace
}  // namespace hetsynth
