// Plans that were proved although they are wrong (docs/bugs.md, "Bugs of the verifier"), and their right neighbours:
// summands that differ along a further axis, axes of one device with tables that are parts, carries behind their loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

const Placement R = Placement::replicated(), P = Placement::partial(ReduceOp::sum);
const std::pair<std::string, int> none{"", -1};

Verification expect(const Program& p, const SpmdProgram& plan, Verdict verdict, const std::string& summary = "") {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, verdict) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, p);
  EXPECT_THAT(v.summary, HasSubstr(summary));
  EXPECT_EQ(v.contradiction, "");
  return v;
}

/// out = x w and a loss on it, over 6 products of each element.
Program product_and_loss() {
  ProgramBuilder p;
  p.leaf("x", NodeKind::input, {8, 6});
  p.leaf("w", NodeKind::parameter, {6, 4});
  p.einsum("out", "bk,kn->bn", "x", "w");
  p.program.loss = p.general("loss", "bn->", {"out"}, Expr::input(0) * Expr::input(0));
  return p.program;
}

/// The product as a sum over axis inner, whose summands differ between the groups of axis outer unless the rows are
/// alike; `meet` makes a replicated value of it.
SpmdProgram summands_by_group(const Program& p, const std::vector<std::vector<int64_t>>& rows,
                              const std::function<ValueId(PlanBuilder&, ValueId)>& meet) {
  PlanBuilder b(p, {{"outer", 2}, {"inner", 2}});
  const int table = b.table("T", 1, 6, 0, rows);
  const ValueId x = b.slice(b.leaf("x", {R, R}), 1, 1, table), w = b.slice(b.leaf("w", {R, R}), 1, 0, table);
  const ValueId out = meet(b, b.compute("out", {x, w}, {none, {"k", table}}));
  b.plan.loss = b.compute("loss", {out}, {none, none});
  return b.plan;
}

const std::vector<std::vector<int64_t>> unlike = {{0, 2, 6}, {0, 5, 6}}, alike = {{0, 2, 6}, {0, 2, 6}};

TEST(Summands, ThatDifferAlongAnAxisAreNoCopies) {
  const Program p = product_and_loss();
  for (ReduceOp reduce : {ReduceOp::max, ReduceOp::min}) {
    const auto extremum_first = [reduce](PlanBuilder& b, ValueId v) {
      return b.all_reduce(b.all_reduce(v, 0, reduce), 1);
    };
    expect(p, summands_by_group(p, unlike, extremum_first), Verdict::refuted,
           "the summands of out differ along axis outer");
    expect(p, summands_by_group(p, alike, extremum_first), Verdict::proved);
  }
}

TEST(Summands, ThatDifferMayBeAveragedBroadcastOrReducedFirst) {
  const Program p = product_and_loss();
  expect(p, summands_by_group(p, unlike, [](PlanBuilder& b, ValueId v) { return b.all_reduce(v, 1); }),
         Verdict::proved);
  const auto averaged = [](PlanBuilder& b, ValueId v) {
    return b.all_reduce(b.all_reduce(v, 0, ReduceOp::average), 1);
  };
  expect(p, summands_by_group(p, unlike, averaged), Verdict::proved);
  const auto broadcast = [](PlanBuilder& b, ValueId v) { return b.all_reduce(b.broadcast(v, 0, 1), 1); };
  expect(p, summands_by_group(p, unlike, broadcast), Verdict::proved);
  const auto extremum_behind = [](PlanBuilder& b, ValueId v) {
    return b.all_reduce(b.all_reduce(v, 1), 0, ReduceOp::max);
  };
  expect(p, summands_by_group(p, unlike, extremum_behind), Verdict::proved);
}

/// Parts over outer of summands over inner: whoever owns an element must own all of its summands.
TEST(Summands, AreGatheredFromOneOwner) {
  const Program p = product_and_loss();
  const auto gathered_by = [&](std::vector<std::vector<int64_t>> owners) {
    return summands_by_group(p, unlike, [&](PlanBuilder& b, ValueId v) {
      const int table = b.table("rows", 0, 8, 1, owners);
      return b.all_reduce(b.all_gather(b.slice(v, 0, 0, table), 0), 1);
    });
  };
  expect(p, gathered_by({{0, 3, 8}, {0, 3, 8}}), Verdict::proved);
  expect(p, gathered_by({{0, 3, 8}, {0, 6, 8}}), Verdict::refuted, "and table rows cuts them differently");
}

/// squares = (x u) (y v), both factors sums over 6 products.
Program product_of_products() {
  ProgramBuilder p;
  for (const char* name : {"x", "y"}) p.leaf(name, NodeKind::input, {8, 6});
  for (const char* name : {"u", "v"}) p.leaf(name, NodeKind::parameter, {6, 4});
  p.einsum("xu", "bk,kn->bn", "x", "u");
  p.einsum("yv", "bk,kn->bn", "y", "v");
  p.general("both", "bn,bn->bn", {"xu", "yv"}, Expr::input(0) * Expr::input(1));
  p.program.loss = p.general("loss", "bn->", {"both"}, Expr::input(0) * Expr::input(0));
  return p.program;
}

/// One factor is partial over axis a, the other over axis b; rows of their tables differ along the other axis, or not.
SpmdProgram product_over_two_axes(const Program& p, bool first_varies, bool second_varies) {
  PlanBuilder b(p, {{"a", 2}, {"b", 2}});
  const auto table = [&](const char* name, int axis, bool varies) {
    return b.table(name, axis, 6, 1 - axis, varies ? unlike : alike);
  };
  const int over_a = table("over_a", 0, first_varies), over_b = table("over_b", 1, second_varies);
  const auto leaf = [&](const char* name) { return b.leaf(name, {R, R}); };
  const ValueId xu = b.compute("xu", {leaf("x"), leaf("u")}, {{"k", over_a}, none});
  const ValueId yv = b.compute("yv", {leaf("y"), leaf("v")}, {none, {"k", over_b}});
  const ValueId both = b.compute("both", {xu, yv}, {none, none});
  b.plan.loss = b.compute("loss", {b.all_reduce(b.all_reduce(both, 0), 1)}, {none, none});
  return b.plan;
}

TEST(Summands, AreMultipliedByCopiesAlone) {
  const Program p = product_of_products();
  expect(p, product_over_two_axes(p, false, false), Verdict::proved);
  // The factor that varies is summed first, while the other is alike along its axis.
  expect(p, product_over_two_axes(p, true, false), Verdict::proved);
  expect(p, product_over_two_axes(p, false, true), Verdict::proved);
  expect(p, product_over_two_axes(p, true, true), Verdict::refuted, "along which the summands of");
}

/// Axis t has one device. Its table divides the parts of axis a, which cuts nothing here.
SpmdProgram gathered_alone(const Program& p, Opcode opcode) {
  PlanBuilder b(p, {{"a", 2}, {"t", 1}});
  b.table("halves", 0, 8, {0, 3, 8});
  const int parts = b.table("parts", 1, 8, 0, {{0, 3}, {3, 8}});
  const int columns = b.table("columns", 1, 4, {0, 4});
  const ValueId out = b.compute("out", {b.leaf("x", {R, R}), b.leaf("w", {R, R})}, {none, none});
  Instruction i;
  i.opcode = opcode;
  i.operands = {out};
  i.axis = 1;
  i.dim = 0;
  i.table = parts;
  if (opcode == Opcode::all_to_all) i.to_dim = 1, i.to_table = columns;
  i.result = ValueId(b.plan.values.size());
  b.plan.values.push_back({"gathered", b.node("out"), {R, R}});
  b.plan.instructions.push_back(i);
  b.plan.loss = b.compute("loss", {i.result}, {none, none});
  return b.plan;
}

TEST(AxesOfOneDevice, GatherPartsThatThereAre) {
  const Program p = product_and_loss();
  for (Opcode opcode : {Opcode::all_gather, Opcode::all_to_all})
    expect(p, gathered_alone(p, opcode), Verdict::refuted, "divides parts over axis a, which does not cut it");
}

/// Where axis a cuts the dimension into the parts that the table divides, there is what is gathered.
TEST(AxesOfOneDevice, GatherTheirPartOfACutDimension) {
  const Program p = product_and_loss();
  PlanBuilder b(p, {{"a", 2}, {"t", 1}});
  const int halves = b.table("halves", 0, 8, {0, 3, 8}), parts = b.table("parts", 1, 8, 0, {{0, 3}, {3, 8}});
  const Placement half = Placement::sharded(0, halves);
  ValueId x = b.slice(b.leaf("x", {half, R}), 1, 0, parts);
  x = b.all_gather(x, 1);
  const ValueId out = b.compute("out", {x, b.leaf("w", {R, R})}, {{"b", halves}, none});
  b.plan.loss = b.all_reduce(b.compute("loss", {out}, {{"b", halves}, none}), 0);
  expect(p, b.plan, Verdict::proved);
}

/// h <- h/2 + w in three turns; behind them, what a copy of h was in the last one.
Program loop_with_copy() {
  ProgramBuilder p;
  const Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("h0", NodeKind::input, {4});
  p.leaf("w", NodeKind::parameter, {4});
  const NodeId h = p.general("h", "i->i", {"h0"}, a);
  const NodeId next = p.general("next", "i,i->i", {"h", "w"}, a * 0.5 + b);
  const NodeId copy = p.general("copy", "i->i", {"h"}, a);
  p.general("last", "i->i", {"copy"}, a);
  p.program.loss = p.general("loss", "i->", {"last"}, a * a);
  for (NodeId in_loop : {h, next, copy}) p.program.nodes[size_t(in_loop)].loop = 0;
  p.program.loops = {TurnLoop{3, {{h, next}}}};
  return p.program;
}

/// The plan hands the loss `from`: "h", "copy", "last", or what a collective moved of h in the loop ("moved").
SpmdProgram loop_plan(const Program& p, const std::string& from) {
  PlanBuilder b(p, {{"dp", 2}});
  const std::vector<std::pair<std::string, int>> whole{none};
  std::map<std::string, ValueId> made;
  made["h"] = b.compute("h", {b.leaf("h0")}, whole);
  made["next"] = b.compute("next", {made["h"], b.leaf("w")}, whole);
  made["copy"] = b.compute("copy", {made["h"]}, whole);
  if (from == "moved") made["moved"] = b.broadcast(made["h"], 0);
  made["last"] = b.compute("last", {made["copy"]}, whole);
  b.plan.loss = b.compute("loss", {made[from]}, whole);
  b.plan.carried = {{p.loops[0].carries[0].carry, made["next"]}};
  return b.plan;
}

TEST(Carries, EndWithTheirLoop) {
  const Program p = loop_with_copy();
  for (const char* from : {"copy", "last", "moved"}) expect(p, loop_plan(p, from), Verdict::proved);
  const Verification v = expect(p, loop_plan(p, "h"), Verdict::refuted, "is read behind the loop that carries it");
  EXPECT_EQ(v.counterexample.evidence, Evidence::form);
}

}  // namespace
}  // namespace hetsynth
