// Tables that cut differently in each group of another axis: what may be done with what they cut, and what not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<int64_t>>;

Verification expect(const Program& p, const SpmdProgram& plan, Verdict verdict) {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, verdict) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, p);
  return v;
}

const Placement R = Placement::replicated();

/// Data over axis dp, cut differently at each coordinate of the axis host, which repeats the work; with `hidden`, the
/// hidden units are divided over host instead, so that hosts do different work on different rows.
SpmdProgram rows_per_host(const Program& p, const Rows& rows, bool hidden = false) {
  PlanBuilder b(p, {{"host", int(rows.size())}, {"dp", int(rows[0].size()) - 1}});
  const int batch = b.table("rows", 1, rows[0].back(), 0, rows);
  std::vector<int64_t> even{0};
  for (size_t i = 1; i <= rows.size(); ++i) even.push_back(int64_t(6 * i / rows.size()));
  const int units = b.table("units", 0, 6, even);
  const Placement cut = Placement::sharded(0, batch);
  const Placement columns = hidden ? Placement::sharded(1, units) : R,
                  lines = hidden ? Placement::sharded(0, units) : R;
  const std::pair<std::string, int> by_rows{"b", batch}, by_units{hidden ? "h" : "", units};
  const ValueId x = b.leaf("x", {R, cut}), y = b.leaf("y", {R, cut});
  const ValueId w1 = b.leaf("w1", {columns, R}), w2 = b.leaf("w2", {lines, R}), m1 = b.leaf("m1", {columns, R});
  const ValueId h = b.compute("h", {x, w1}, {by_units, by_rows}), a = b.compute("a", {h}, {by_units, by_rows});
  ValueId o = b.compute("o", {a, w2}, {by_units, by_rows});
  ValueId y_here = y;
  if (hidden) {  // rows differ between hosts: gathered before hosts meet, cut again behind
    o = b.slice(b.all_reduce(b.all_gather(o, 1), 0), 1, 0, batch);
  }
  const std::pair<std::string, int> none{"", -1};
  const ValueId d = b.compute("d", {o, y_here}, {none, by_rows});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {none, by_rows}), 1);
  const ValueId d_o = b.compute("d_o", {d}, {none, by_rows});
  const ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {by_units, by_rows}), 1);
  const ValueId d_a = b.compute("d_a", {d_o, w2}, {by_units, by_rows}),
                d_h = b.compute("d_h", {h, d_a}, {by_units, by_rows});
  const ValueId d_w1 = b.all_reduce(b.compute("d_w1", {x, d_h}, {by_units, by_rows}), 1);
  const ValueId m1_new = b.compute("m1_new", {m1, d_w1}, {by_units, none});
  b.final("w1", b.compute("w1_new", {w1, m1_new}, {by_units, none}));
  b.final("w2", b.compute("w2_new", {w2, d_w2}, {by_units, none}));
  b.final("m1", m1_new);
  return b.plan;
}

TEST(GroupTables, AreProvedWhereGroupsKeepToThemselves) {
  const Program p = two_layers();
  for (const Rows& rows : {Rows{{0, 3, 8}, {0, 6, 8}}, Rows{{0, 0, 8}, {0, 8, 8}}, Rows{{0, 8}, {0, 8}},
                           Rows{{0, 0, 0, 1, 8}, {0, 2, 8, 8, 8}, {0, 1, 2, 3, 8}}, Rows{{0, 4, 8}, {0, 4, 8}}}) {
    expect(p, rows_per_host(p, rows), Verdict::proved);
    expect(p, rows_per_host(p, rows, true), Verdict::proved);
  }
}

/// Sizes below the number of devices: most shares are empty.
TEST(GroupTables, MoreDevicesThanRows) {
  const Program p = two_layers(2, 4, 6, 5);
  expect(p, rows_per_host(p, {{0, 0, 1, 1, 2}, {0, 1, 1, 2, 2}}), Verdict::proved);
  expect(p, rows_per_host(p, {{0, 0, 1, 1, 2}, {0, 1, 1, 2, 2}}, true), Verdict::proved);
}

/// o, the sum over hosts of what each computes of its own rows: the rows differ.
SpmdProgram summed_over_hosts(const Program& p, const Rows& rows) {
  SpmdProgram plan = rows_per_host(p, rows, true);
  const int gather = find(plan, p, Opcode::all_gather, "o"), slice = find(plan, p, Opcode::slice, "o");
  const Placements cut = plan.values[size_t(plan.instructions[size_t(slice)].result)].placements;
  drop(plan, slice);
  drop(plan, gather);
  const int reduce = find(plan, p, Opcode::all_reduce, "o");
  plan.values[size_t(plan.instructions[size_t(reduce)].result)].placements = cut;
  return plan;
}

TEST(GroupTables, AReductionAcrossGroupsDemandsEqualTables) {
  const Program p = two_layers();
  expect(p, summed_over_hosts(p, {{0, 3, 8}, {0, 3, 8}}), Verdict::proved);
  const Verification v = expect(p, summed_over_hosts(p, {{0, 3, 8}, {0, 6, 8}}), Verdict::refuted);
  EXPECT_THAT(v.summary, HasSubstr("o is cut over axis dp by table rows, which differs along axis host: in all_reduce "
                                   "over host different parts of it would meet"));
  // Shares of equal sizes at other places would add up without an error.
  const Program q = two_layers(9, 4, 6, 5);
  const Verification shifted =
      expect(q, summed_over_hosts(q, {{0, 3, 6, 9}, {0, 3, 6, 9}, {0, 3, 6, 9}}), Verdict::proved);
  EXPECT_GT(shifted.obligations, 0);
  expect(q, summed_over_hosts(q, {{0, 2, 5, 9}, {0, 2, 5, 9}, {0, 2, 6, 9}}), Verdict::refuted);
}

TEST(GroupTables, OperandsCutByAnotherTableDoNotFit) {
  const Program p = two_layers();
  SpmdProgram plan = rows_per_host(p, {{0, 3, 8}, {0, 6, 8}});
  plan.tables.push_back({"other", 1, 8, {0, 3, 8}});
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::compute && p[i.node].name == "h") i.splits[1].table = 2;
  for (Value& value : plan.values)
    if (p[value.node].name == "h") value.placements[1].table = 2;
  const Verification v = expect(p, plan, Verdict::refuted);
  EXPECT_THAT(v.summary, HasSubstr("x is cut by table rows over axis dp, but h runs over the parts of table other"));
}

/// Over each axis differently along the other: the parts overlap and leave gaps.
TEST(GroupTables, TablesMustNotDependOnEachOther) {
  const Program p = two_layers();
  PlanBuilder b(p, {{"host", 2}, {"dp", 2}});
  const int rows = b.table("rows", 1, 8, 0, {{0, 3, 8}, {0, 6, 8}}),
            units = b.table("units", 0, 6, 1, {{0, 1, 6}, {0, 4, 6}});
  SpmdProgram plan = rows_per_host(p, {{0, 3, 8}, {0, 6, 8}}, true);
  EXPECT_EQ(units, 1);
  EXPECT_EQ(rows, 0);
  plan.tables[1] = b.plan.tables[1];
  const Verification v = expect(p, plan, Verdict::refuted);
  EXPECT_THAT(v.summary, HasSubstr("the parts do not cover it"));
}

TEST(GroupTables, FlawsOfForm) {
  const Program p = two_layers();
  const auto broken = [&](auto change, const std::string& sentence) {
    SpmdProgram plan = rows_per_host(p, {{0, 3, 8}, {0, 6, 8}});
    change(plan.tables[0]);
    const Verification v = expect(p, plan, Verdict::refuted);
    EXPECT_EQ(v.counterexample.evidence, Evidence::form);
    EXPECT_THAT(v.summary, HasSubstr(sentence));
  };
  broken([](BoundaryTable& t) { t.rows[1][2] = 7; }, "table rows ends at 7 of 8 units");
  broken([](BoundaryTable& t) { t.rows[1] = {0, 9, 8}; }, "table rows falls from 9 to 8");
  broken([](BoundaryTable& t) { t.rows.pop_back(); }, "table rows has 1 rows for 2 devices of axis host");
  broken([](BoundaryTable& t) { t.by = 1; }, "table rows differs along no other axis of the mesh");
  broken([](BoundaryTable& t) { t.rows[0].push_back(8); }, "table rows has 4 boundaries for 2 devices");
}

}  // namespace
}  // namespace hetsynth
