// Parts that overlap: which windows ask for them, what every device holds, what plan files say of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/base/error.h"
#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan.h"
#include "tests/support/changed_plan.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Row y * stride + k * dilation + offset of 24 / stride rows.
struct Window {
  int64_t stride = 1, taps = 3, dilation = 1, offset = -1, rows = 24;
};

std::optional<WindowCut> cut_by(const Window& w, int factor = 0) {
  Space space;
  const int y = space.add_factor("y", w.rows / w.stride, FactorKind::parallel),
            k = space.add_factor("k", w.taps, FactorKind::sum);
  const Access access{{{{IndexTerm{.factor = y, .stride = w.stride}, {.factor = k, .stride = w.dilation}}, w.offset}},
                      true};
  return window_cut_of(space, access, {24}, factor);
}

void expect_cut(const std::optional<WindowCut>& cut, int64_t unit, int64_t before, int64_t after) {
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->dim, 0);
  EXPECT_EQ(cut->unit, unit);
  EXPECT_EQ(cut->before, before);
  EXPECT_EQ(cut->after, after);
}

TEST(WindowCut, ReachesAsFarAsTheWindows) {
  expect_cut(cut_by({}), 1, 1, 1);
  expect_cut(cut_by({.offset = 0}), 1, 0, 2);
  expect_cut(cut_by({.offset = -2}), 1, 2, 0);
  expect_cut(cut_by({.dilation = 3, .offset = -3}), 1, 3, 3);
  expect_cut(cut_by({.dilation = -1, .offset = 1}), 1, 1, 1);  // as the gradient of a convolution reads
  expect_cut(cut_by({.stride = 2}), 2, 1, 0);
  expect_cut(cut_by({.stride = 2, .taps = 7, .offset = -3}), 2, 3, 2);
  expect_cut(cut_by({.stride = 4, .taps = 3, .offset = 2}), 4, 0, 1);
  expect_cut(cut_by({.taps = 1, .offset = 5}), 1, 0, 5);
}

TEST(WindowCut, IsNoneWherePartsDoNotMatch) {
  EXPECT_FALSE(cut_by({.stride = 3, .offset = 0}));  // parts of their own: cut_of
  EXPECT_FALSE(cut_by({.taps = 30}));                // all rows
  EXPECT_FALSE(cut_by({.rows = 22}));                // fewer windows than rows
  EXPECT_FALSE(cut_by({}, 1));                       // the taps
  Space space;
  space.add_factor("y", 24, FactorKind::parallel);
  const Access twice{{{{IndexTerm{0}, IndexTerm{0}}, 0}}}, halved{{{{IndexTerm{.factor = 0, .divide = 2}}, 1}}},
      diagonal{{{{IndexTerm{0}}, 1}, {{IndexTerm{0}}, 1}}}, turning{{{{IndexTerm{0}}, 1, 1}}}, none{{{{}, 3}}};
  for (const Access& access : {twice, halved, turning, none}) EXPECT_FALSE(window_cut_of(space, access, {24}, 0));
  EXPECT_FALSE(window_cut_of(space, diagonal, {24, 24}, 0));
}

TEST(Halo, LiesAroundEveryPartThatIsNotEmpty) {
  SpmdProgram program;
  program.mesh.axes = {{"sp", 5}};
  program.tables = {{"rows", 0, 12, {0, 1, 1, 4, 11, 12}}};
  std::vector<std::pair<int64_t, int64_t>> held;
  for (int rank = 0; rank < 5; ++rank) {
    const Range range = local_ranges(program, {Placement::overlapping(1, 0, 3, 4)}, {2, 24}, rank)[1];
    held.push_back({range.lo, range.hi});
  }
  EXPECT_THAT(held,
              ElementsAre(std::pair(0, 6), std::pair(2, 2), std::pair(0, 12), std::pair(5, 24), std::pair(19, 24)));
}

TEST(Halo, IsOfOneCutThatIsAlikeInAllGroups) {
  SpmdProgram program;
  program.mesh.axes = {{"host", 2}, {"dp", 2}};
  program.tables = {{"rows", 1, 6, {0, 4, 6}},
                    {"unlike", 1, 6, {}, 0, {{0, 4, 6}, {0, 1, 6}}},
                    {"outer", 0, 6, {0, 4, 6}},
                    {"parts", 1, 6, {}, 0, {{0, 1, 4}, {4, 4, 6}}}};
  const Placement R = Placement::replicated();
  EXPECT_EQ(why_not_held(program, {R, Placement::overlapping(0, 0, 1, 1)}), "");
  EXPECT_EQ(why_not_held(program, {Placement::sharded(1, 2), Placement::overlapping(0, 0, 1, 1)}), "");
  EXPECT_THAT(why_not_held(program, {R, Placement::overlapping(0, 1, 1, 1)}),
              HasSubstr("table unlike cuts differently along axis host"));
  EXPECT_THAT(why_not_held(program, {Placement::sharded(0, 2), Placement::overlapping(0, 3, 1, 1)}),
              HasSubstr("two axes cut it"));
  EXPECT_THAT(why_not_held(program, {R, Placement::overlapping(0, 0, 2, -1)}), HasSubstr("less than 0"));
}

struct HaloPlan : testing::ChangedPlan {
  HaloPlan() : ChangedPlan(testing::plan_test_halo) {}
};

TEST_F(HaloPlan, ComesBackAsItWas) {
  const Plan again = plan_from_json(json, "p.json", reference);
  EXPECT_EQ(again.program, canonical(plan.program));
  EXPECT_EQ(plan_to_json(again, reference), json);
}

TEST_F(HaloPlan, IsWrittenForPeople) {
  EXPECT_THAT(json, HasSubstr(R"("axis": "dp", "dim": 0, "table": "rows", "before": 1, "after": 2, )"));
  EXPECT_THAT(json, HasSubstr(R"x("placement": {"dp": "overlapping(0, 1, 2, rows)"})x"));
  EXPECT_THAT(text(plan.program, reference),
              HasSubstr("x@wide = halo_exchange(x@S0) over dp dim 0 by rows before 1 after 2  # windows reach over"));
  EXPECT_EQ(text(plan.program.mesh, {Placement::overlapping(0, 0, 1, 2)}), "dp:S0~1~2");
}

TEST_F(HaloPlan, AnExchangeGoesToAnotherDimension) {
  const std::string was =
      "\"op\": \"halo_exchange\", \"result\": \"x@wide\", \"axis\": \"dp\", \"dim\": 0, \"table\": \"rows\", "
      "\"before\": 1, \"after\": 2";
  EXPECT_THAT(
      error_of(was,
               "\"op\": \"all_to_all\", \"result\": \"x@wide\", \"axis\": \"dp\", \"dim\": 0, \"table\": \"rows\", "
               "\"to_dim\": 0, \"to_table\": \"rows\""),
      HasSubstr("the tensor is to be cut in the dimension that it is cut in"));
}

TEST_F(HaloPlan, MistakesAreNamed) {
  const std::string was = "overlapping(0, 1, 2, rows)";
  EXPECT_THAT(error_of(was, "overlapping(0, 0, 0, rows)"),
              AllOf(HasSubstr("parts without a halo do not overlap"), HasSubstr("sharded(dimension, table)")));
  EXPECT_THAT(error_of(was, "overlapping(0, 1, rows)"),
              AllOf(HasSubstr("not a number of elements that parts overlap by"), HasSubstr("\"rows\"")));
  EXPECT_THAT(error_of(was, "overlapping(0, -1, 2, rows)"), HasSubstr("a number from 0 to 6"));
  EXPECT_THAT(error_of(was, "overlapping(0, 1, 7, rows)"), HasSubstr("\"7\""));
  EXPECT_THAT(error_of(was, "overlapping(0, 1, 99999999999999999999, rows)"), HasSubstr("a number from 0 to 6"));
  EXPECT_THAT(error_of(was, "overlapping(9, 1, 2, rows)"), HasSubstr("has no dimension \"9\""));
  EXPECT_THAT(error_of(was, "overlapping(0, 1, 2, row)"), HasSubstr("unknown table \"row\""));
  EXPECT_THAT(error_of(was, "overlapping(0)"), HasSubstr("\"overlapping(dimension, before, after, table)\""));
  EXPECT_THAT(error_of("\"before\": 1, \"after\": 2", "\"before\": 0, \"after\": 0"),
              HasSubstr("the exchange brings nothing"));
  EXPECT_THAT(error_of("\"before\": 1, ", ""), HasSubstr("\"before\""));
  EXPECT_THAT(error_of("\"after\": 2", "\"after\": -2"), HasSubstr("the number is out of range"));
}

}  // namespace
}  // namespace hetsynth
