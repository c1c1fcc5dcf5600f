// One dimension cut along two mesh axes: the ranges of devices, what plan files say of it, and what they may not say.
#include "dsl/spmd/nested_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "dsl/spmd/plan.h"
#include "tests/support/changed_plan.h"

namespace hetsynth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const BoundaryTable outer{"rows", 0, 6, {0, 4, 6}}, inner{"parts", 1, 12, {}, 0, {{0, 2, 8}, {8, 12, 12}}};

TEST(NestedCut, IsToldByItsRows) {
  EXPECT_TRUE(nests(inner));
  EXPECT_FALSE(nests(outer));
  EXPECT_FALSE(nests({"covers", 1, 12, {}, 0, {{0, 2, 12}, {0, 5, 12}}}));
  EXPECT_FALSE(nests({"gap", 1, 12, {}, 0, {{0, 2, 7}, {8, 12, 12}}}));
  EXPECT_FALSE(nests({"short", 1, 12, {}, 0, {{0, 2, 8}, {8, 11, 11}}}));
  EXPECT_FALSE(nests({"one group", 1, 12, {}, 0, {{0, 2, 12}}}));
  EXPECT_THAT(outer_bounds(inner), ElementsAre(0, 8, 12));
}

TEST(NestedCut, GivesEveryDeviceItsPartOfAPart) {
  SpmdProgram program;
  program.mesh.axes = {{"host", 2}, {"device", 2}};
  program.tables = {outer, inner};
  const Placements placements{Placement::sharded(1, 0), Placement::sharded(1, 1)};
  EXPECT_EQ(why_not_held(program, placements), "");
  std::vector<std::pair<int64_t, int64_t>> held;
  for (int rank = 0; rank < 4; ++rank) {
    const Range range = local_ranges(program, placements, {5, 24}, rank)[1];
    held.push_back({range.lo, range.hi});
  }
  EXPECT_THAT(held, ElementsAre(std::pair(0, 4), std::pair(4, 16), std::pair(16, 24), std::pair(24, 24)));
  // What a group exchanges is counted from where its part begins.
  EXPECT_THAT(bounds_in_elements(program, 1, 24, 1), ElementsAre(0, 4, 16));
  EXPECT_THAT(bounds_in_elements(program, 1, 24, 2), ElementsAre(0, 8, 8));
}

/// A table whose rows are equal cuts as the plain one does, be it the outer one, be there one row.
TEST(NestedCut, EqualRowsAreOneTable) {
  SpmdProgram program;
  program.mesh.axes = {{"host", 2}, {"device", 2}, {"lane", 1}};
  program.tables = {{"rows", 0, 6, {}, 1, {{0, 4, 6}, {0, 4, 6}}},
                    inner,
                    {"one row", 0, 6, {}, 2, {{0, 4, 6}}},
                    {"rows that differ", 0, 6, {}, 1, {{0, 4, 6}, {0, 3, 6}}}};
  EXPECT_EQ(common_bounds(program.tables[0]), outer.bounds);
  EXPECT_EQ(common_bounds(outer), outer.bounds);
  for (int table : {0, 2}) EXPECT_EQ(why_not_cut_by(program, {table, 1, -1}), "") << table;
  EXPECT_EQ(why_not_cut_by(program, {3, 1, -1}),
            "table parts divides parts of table rows that differ, which differ along axis device");
  program.tables[0].rows = {{0, 3, 6}, {0, 3, 6}};
  EXPECT_EQ(why_not_cut_by(program, {0, 1, -1}), "the rows of table parts are not the parts of table rows");
}

/// The fixture's plan on two hosts of two devices, its rows cut along both axes.
Plan plan_of(const Program& reference) {
  Plan plan = testing::plan_test_plan(reference);
  SpmdProgram& p = plan.program;
  p.mesh.axes = {{"host", 2}, {"dp", 2}};
  const int parts = int(p.tables.size());
  p.tables.push_back({"parts", 1, 6, {}, 0, {{0, 1, 4}, {4, 4, 6}}});
  for (Value& value : p.values) {
    const Placement first = value.placements[0];
    value.placements.push_back(first.kind == Placement::Kind::sharded ? Placement::sharded(first.dim, parts) : first);
  }
  std::vector<Instruction> instructions;
  for (Instruction i : p.instructions) {
    if (i.opcode == Opcode::compute) i.splits.resize(2);
    if (i.opcode == Opcode::compute && i.splits[0].factor >= 0) i.splits[1] = {i.splits[0].factor, parts};
    instructions.push_back(i);
    if (i.opcode != Opcode::all_reduce) continue;
    const ValueId between = ValueId(p.values.size());
    p.values.push_back(
        {"loss@R,P+", p.values[size_t(i.result)].node, {Placement::replicated(), Placement::partial(ReduceOp::sum)}});
    instructions.back().result = between;
    i.operands = {between};
    i.axis = 1;
    instructions.push_back(i);
  }
  p.instructions = instructions;
  for (const char* name : {"third", "fourth"}) plan.devices.push_back({name, DeviceKind::cpu, "", ""});
  plan.ratios.clear();
  plan.prediction.devices.clear();
  return plan;
}

struct NestedPlan : testing::ChangedPlan {
  NestedPlan() : ChangedPlan(plan_of) {}
};

TEST_F(NestedPlan, ComesBackAsItWas) {
  EXPECT_THAT(json, HasSubstr(R"x("axis": "dp", "by": "host", "extent": 6, "bounds": [[0, 1, 4], [4, 4, 6]]})x"));
  const Plan again = plan_from_json(json, "p.json", reference);
  EXPECT_EQ(again.program, canonical(plan.program));
  EXPECT_EQ(plan_to_json(again, reference), json);
}

TEST_F(NestedPlan, WrongOnesAreRefusedWithTheirPlace) {
  EXPECT_THAT(
      error_of("[[0, 1, 4], [4, 4, 6]]", "[[0, 1, 3], [3, 4, 6]]"),
      HasSubstr("[plan.decisions.leaves[0].placement] dimension 0 cannot be cut so: the rows of table parts are "
                "not the parts of table rows"));
  EXPECT_THAT(
      error_of("[4, 4, 6]]", "[5, 5, 6]]"),
      HasSubstr("bounds[1][0]] the row does not begin where the one before it ends\n  expected: 4; or every row from "
                "0 to 6\n  found:    5"));
  EXPECT_THAT(error_of("[4, 4, 6]]", "[4, 4, 5]]"),
              HasSubstr("bounds[1]] the table does not cover its extent\n  expected: the last bound is 6"));
  EXPECT_THAT(error_of("[4, 4, 6]]", "[0, 4, 6]]"), HasSubstr("bounds[0]] the table does not cover its extent"));
  EXPECT_THAT(error_of("[4, 4, 6]]", "[4, 3, 6]]"), HasSubstr("the bounds decrease"));
  EXPECT_THAT(error_of("\"host\": \"sharded(0, rows)\"", "\"host\": \"replicated\""),
              HasSubstr("table parts divides parts over axis host, which does not cut it"));
  EXPECT_THAT(error_of("\"host\": \"split(i, rows)\"", "\"host\": \"whole\""),
              HasSubstr("factor i cannot be divided so: table parts divides parts over axis host"));
  EXPECT_THAT(
      error_of(R"("name": "parts", "axis": "dp", "by": "host")", R"("name": "parts", "axis": "host", "by": "dp")"),
      HasSubstr("a table can only divide parts of an axis before its own"));
}

}  // namespace
}  // namespace hetsynth
