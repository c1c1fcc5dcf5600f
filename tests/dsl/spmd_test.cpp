// Ranks, ranges and the placement rules of the SPMD program, on a hand-built matrix product and sum.
#include "dsl/spmd/spmd.h"

#include <gmock/gmock.h>

namespace hetsynth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// %0 x f32[6,4], %1 w f32[4,8], %2 y = x w, %3 z = y + y.
Program small_program() {
  Program p;
  auto leaf = [&](NodeKind kind, const char* name, Shape shape) {
    Node n;
    n.id = int(p.nodes.size());
    n.kind = kind;
    n.name = name;
    n.type = {shape, DType::f32};
    p.nodes.push_back(n);
  };
  leaf(NodeKind::input, "x", {6, 4});
  leaf(NodeKind::parameter, "w", {4, 8});
  Node y;
  y.id = 2;
  y.name = "y";
  y.type = {{6, 8}, DType::f32};
  y.inputs = {0, 1};
  int i = y.space.add_factor("i", 6, FactorKind::parallel);
  int j = y.space.add_factor("j", 8, FactorKind::parallel);
  int k = y.space.add_factor("k", 4, FactorKind::sum);
  y.space.inputs = {{{index_by(i), index_by(k)}}, {{index_by(k), index_by(j)}}};
  y.space.output = {{index_by(i), index_by(j)}};
  y.body = Expr::input(0) * Expr::input(1);
  p.nodes.push_back(y);
  Node z;
  z.id = 3;
  z.name = "z";
  z.type = y.type;
  z.inputs = {2, 2};
  int a = z.space.add_factor("a", 6, FactorKind::parallel);
  int b = z.space.add_factor("b", 8, FactorKind::parallel);
  z.space.inputs = {{{index_by(a), index_by(b)}}, {{index_by(a), index_by(b)}}};
  z.space.output = {{index_by(a), index_by(b)}};
  z.body = Expr::input(0) + Expr::input(1);
  p.nodes.push_back(z);
  return p;
}

SpmdProgram two_devices() {
  SpmdProgram s;
  s.mesh.axes = {{"dp", 2}};
  s.tables = {{"rows", 0, 6, {0, 4, 6}}, {"inner", 0, 2, {0, 0, 2}}};
  s.values = {{"x@R", 0, {Placement::replicated()}},
              {"x@S0", 0, {Placement::sharded(0, 0)}},
              {"x@S1", 0, {Placement::sharded(1, 1)}},
              {"w@R", 1, {Placement::replicated()}},
              {"w@S0", 1, {Placement::sharded(0, 1)}},
              {"y@P", 2, {Placement::partial(ReduceOp::sum)}},
              {"y@Pmax", 2, {Placement::partial(ReduceOp::max)}}};
  return s;
}

Instruction compute(NodeId node, std::vector<ValueId> operands, Split split) {
  Instruction i;
  i.node = node;
  i.operands = std::move(operands);
  i.splits = {split};
  return i;
}

TEST(Mesh, NumbersRanksRowMajorAndFindsGroups) {
  Mesh mesh{{{"hosts", 2}, {"gpus", 3}}};
  EXPECT_EQ(mesh.device_count(), 6);
  EXPECT_EQ(mesh.coordinate(4, 0), 1);
  EXPECT_EQ(mesh.coordinate(4, 1), 1);
  EXPECT_THAT(mesh.group(4, 0), ElementsAre(1, 4));
  EXPECT_THAT(mesh.group(4, 1), ElementsAre(3, 4, 5));
}

TEST(Ranges, FollowTheTableInItsUnits) {
  SpmdProgram s = two_devices();
  EXPECT_EQ(local_ranges(s, {Placement::sharded(0, 0)}, {6, 4}, 0)[0], (Range{0, 4}));
  EXPECT_EQ(local_ranges(s, {Placement::sharded(0, 0)}, {12, 4}, 1)[0], (Range{8, 12}));
  EXPECT_EQ(local_shape(s, {Placement::sharded(1, 1)}, {6, 4}, 0), (Shape{6, 0}));
  EXPECT_EQ(local_shape(s, {Placement::sharded(1, 1)}, {6, 4}, 1), (Shape{6, 4}));
}

TEST(Ranges, ATableThatDoesNotDivideIsNamed) {
  SpmdProgram s = two_devices();
  try {
    local_ranges(s, {Placement::sharded(0, 0)}, {7, 4}, 0);
    FAIL() << "a dimension of 7 was cut into sixths";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[table rows]"));
    EXPECT_THAT(error.what(), HasSubstr("multiple of 6"));
  }
}

TEST(Placements, ASplitParallelFactorCutsTheResult) {
  Program p = small_program();
  auto placed = infer_placements(two_devices(), p, compute(2, {1, 3}, {0, 0}), nullptr);
  ASSERT_TRUE(placed);
  EXPECT_EQ((*placed)[0], Placement::sharded(0, 0));
}

TEST(Placements, ASplitComputeMayReadAReplicatedOperand) {
  Program p = small_program();
  auto placed = infer_placements(two_devices(), p, compute(2, {0, 3}, {0, 0}), nullptr);
  ASSERT_TRUE(placed);
  EXPECT_EQ((*placed)[0], Placement::sharded(0, 0));
}

TEST(Placements, ASplitSumLeavesPartialSums) {
  Program p = small_program();
  auto placed = infer_placements(two_devices(), p, compute(2, {2, 4}, {2, 1}), nullptr);
  ASSERT_TRUE(placed);
  EXPECT_EQ((*placed)[0], Placement::partial(ReduceOp::sum));
}

TEST(Placements, PartialSumsPassThroughWhatIsAdditiveInThem) {
  Program p = small_program();
  auto placed = infer_placements(two_devices(), p, compute(3, {5, 5}, {}), nullptr);
  ASSERT_TRUE(placed);
  EXPECT_EQ((*placed)[0], Placement::partial(ReduceOp::sum));
}

TEST(Placements, RefusalsSayWhy) {
  Program p = small_program();
  SpmdProgram s = two_devices();
  std::string reason;
  EXPECT_FALSE(infer_placements(s, p, compute(2, {1, 3}, {}), &reason));
  EXPECT_THAT(reason, HasSubstr("x@S0 is cut in dimension 0 where y needs it whole"));
  EXPECT_FALSE(infer_placements(s, p, compute(2, {1, 4}, {2, 1}), &reason));
  EXPECT_THAT(reason, HasSubstr("needs it cut in dimension 1"));
  EXPECT_FALSE(infer_placements(s, p, compute(3, {6, 6}, {}), &reason));
  EXPECT_THAT(reason, HasSubstr("y@Pmax is Pmax where z needs it reduced"));
  EXPECT_FALSE(infer_placements(s, p, compute(2, {1, 3}, {0, 1}), &reason));
  EXPECT_THAT(reason, HasSubstr("needs it"));
}

}  // namespace
}  // namespace hetsynth
