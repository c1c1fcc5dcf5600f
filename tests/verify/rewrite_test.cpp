// Plans that differ from the plain ones but compute the same: all must be proved.
#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;

void expect_proved(const Program& reference, const SpmdProgram& plan) {
  Verification v = verify(reference, plan);
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, reference);
  EXPECT_EQ(v.instruction, -1);
  EXPECT_GT(v.obligations, v.distinct_obligations);
}

/// Inserts a movement after `instruction` and lets the readers of its result read the movement's result. Returns the
/// new value.
ValueId insert_after(SpmdProgram& plan, int instruction, Instruction movement, Placements placements) {
  ValueId from = plan.instructions[instruction].result;
  plan.values.push_back({"inserted" + std::to_string(plan.values.size()), plan.values[from].node, placements});
  movement.operands = {from};
  movement.result = ValueId(plan.values.size()) - 1;
  for (size_t i = size_t(instruction) + 1; i < plan.instructions.size(); ++i)
    for (ValueId& v : plan.instructions[i].operands)
      if (v == from) v = movement.result;
  for (auto& [target, v] : plan.finals)
    if (v == from) v = movement.result;
  plan.instructions.insert(plan.instructions.begin() + instruction + 1, movement);
  return movement.result;
}

Instruction movement(Opcode opcode, int dim = -1, int table = -1) {
  Instruction i;
  i.opcode = opcode;
  i.axis = 0;
  i.dim = dim;
  i.table = table;
  return i;
}

TEST(Proof, DataParallelism) {
  Program p = two_layers();
  expect_proved(p, data_parallel(p));
}

TEST(Proof, TensorParallelism) {
  Program p = two_layers();
  expect_proved(p, tensor_parallel(p));
}

TEST(Proof, EmptySharesAndOneShareForAll) {
  Program p = two_layers();
  for (std::vector<int64_t> bounds : {std::vector<int64_t>{0, 0, 8}, {0, 8, 8}, {0, 0, 5, 5, 8}, {0, 8}})
    expect_proved(p, data_parallel(p, bounds));
  for (std::vector<int64_t> bounds : {std::vector<int64_t>{0, 0, 6}, {0, 6, 6}, {0, 1, 1, 4, 6}, {0, 6}})
    expect_proved(p, tensor_parallel(p, bounds));
}

TEST(Proof, TwoAxes) {
  Program p = two_layers();
  PlanBuilder b(p, {{"dp", 3}, {"tp", 2}});
  int batch = b.table("batch", 0, 8, {0, 1, 5, 8}), hidden = b.table("hidden", 1, 3, {0, 1, 3});
  Placement R = Placement::replicated(), cut = Placement::sharded(0, batch);
  ValueId x = b.leaf("x", {cut, R}), y = b.leaf("y", {cut, R});
  ValueId w1 = b.leaf("w1", {R, Placement::sharded(1, hidden)}), w2 = b.leaf("w2", {R, Placement::sharded(0, hidden)});
  ValueId m1 = b.leaf("m1", {R, Placement::sharded(1, hidden)});
  ValueId h = b.compute("h", {x, w1}, {{"b", batch}, {"h", hidden}});
  ValueId a = b.compute("a", {h}, {{"b", batch}, {"h", hidden}});
  ValueId o = b.all_reduce(b.compute("o", {a, w2}, {{"b", batch}, {"h", hidden}}), 1);
  ValueId d = b.compute("d", {o, y}, {{"b", batch}});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {{"b", batch}}), 0);
  ValueId d_o = b.compute("d_o", {d}, {{"b", batch}});
  ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {{"b", batch}, {"h", hidden}}), 0);
  ValueId d_a = b.compute("d_a", {d_o, w2}, {{"b", batch}, {"h", hidden}});
  ValueId d_h = b.compute("d_h", {h, d_a}, {{"b", batch}, {"h", hidden}});
  ValueId d_w1 = b.all_reduce(b.compute("d_w1", {x, d_h}, {{"b", batch}, {"h", hidden}}), 0);
  ValueId m1_new = b.compute("m1_new", {m1, d_w1}, {{"", 0}, {"h", hidden}});
  b.final("w1", b.compute("w1_new", {w1, m1_new}, {{"", 0}, {"h", hidden}}));
  b.final("w2", b.compute("w2_new", {w2, d_w2}, {{"", 0}, {"h", hidden}}));
  b.final("m1", m1_new);
  expect_proved(p, b.plan);
}

TEST(Proof, ShardedOptimizerState) {
  Program p = two_layers();
  PlanBuilder b(p, {{"dp", 2}});
  int batch = b.table("batch", 0, 8, {0, 3, 8}), rows = b.table("rows", 0, 4, {0, 1, 4});
  Placement cut = Placement::sharded(0, batch), owned = Placement::sharded(0, rows);
  ValueId x = b.leaf("x", {cut}), y = b.leaf("y", {cut}), w1 = b.leaf("w1"), w2 = b.leaf("w2"),
          m1 = b.leaf("m1", {owned});
  ValueId h = b.compute("h", {x, w1}, {{"b", batch}}), a = b.compute("a", {h}, {{"b", batch}});
  ValueId d = b.compute("d", {b.compute("o", {a, w2}, {{"b", batch}}), y}, {{"b", batch}});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {{"b", batch}}), 0);
  ValueId d_o = b.compute("d_o", {d}, {{"b", batch}});
  ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {{"b", batch}}), 0);
  ValueId d_h = b.compute("d_h", {h, b.compute("d_a", {d_o, w2}, {{"b", batch}})}, {{"b", batch}});
  ValueId d_w1 = b.reduce_scatter(b.compute("d_w1", {x, d_h}, {{"b", batch}}), 0, 0, rows);
  ValueId m1_new = b.compute("m1_new", {m1, d_w1}, {{"k", rows}});
  ValueId w1_new = b.compute("w1_new", {b.slice(w1, 0, 0, rows), m1_new}, {{"k", rows}});
  b.final("w1", b.all_gather(w1_new, 0));
  b.final("w2", b.compute("w2_new", {w2, d_w2}));
  b.final("m1", m1_new);
  expect_proved(p, b.plan);
}

/// Softmax over a dimension that is cut: maxima and sums are reduced, nothing else is.
TEST(Proof, SoftmaxOverACutDimension) {
  Program p = softmax_layer();
  PlanBuilder b(p, {{"tp", 3}});
  int t = b.table("n", 0, 6, {0, 1, 1, 6});
  ValueId x = b.leaf("x"), w = b.leaf("w", {Placement::sharded(1, t)});
  ValueId o = b.compute("o", {x, w}, {{"n", t}});
  ValueId mx = b.all_reduce(b.compute("mx", {o}, {{"n", t}}), 0, ReduceOp::max);
  ValueId e = b.compute("e", {o, mx}, {{"n", t}});
  ValueId s = b.all_reduce(b.compute("s", {e}, {{"n", t}}), 0);
  ValueId q = b.compute("p", {e, s}, {{"n", t}});
  b.plan.loss = b.all_reduce(b.compute("loss", {q, mx}, {{"n", t}}), 0);
  b.final("w", b.compute("w_new", {w, b.compute("d_w", {x, q}, {{"n", t}})}, {{"n", t}}));
  expect_proved(p, b.plan);
}

TEST(Rewrite, AllReduceAsReduceScatterAndAllGather) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  plan.tables.push_back({"columns", 0, 6, {0, 1, 6}});
  int at = find(plan, p, Opcode::all_reduce, "d_w1");
  Placements cut{Placement::sharded(1, 1)};
  plan.instructions[at].opcode = Opcode::reduce_scatter;
  plan.instructions[at].dim = 1;
  plan.instructions[at].table = 1;
  plan.values[plan.instructions[at].result].placements = cut;
  insert_after(plan, at, movement(Opcode::all_gather, 1, 1), {Placement::replicated()});
  expect_proved(p, plan);
}

TEST(Rewrite, SliceThenGather) {
  Program p = two_layers();
  SpmdProgram plan = tensor_parallel(p);
  int at = find(plan, p, Opcode::compute, "d");
  insert_after(plan, at, movement(Opcode::slice, 1, 1), {Placement::sharded(1, 1)});
  plan.tables.push_back({"columns", 0, 5, {0, 0, 5}});
  insert_after(plan, at + 1, movement(Opcode::all_gather, 1, 1), {Placement::replicated()});
  expect_proved(p, plan);
}

TEST(Rewrite, AllToAllInPlaceOfGatherAndSlice) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  plan.tables.push_back({"columns", 0, 6, {0, 4, 6}});
  int at = find(plan, p, Opcode::compute, "h");
  Instruction there = movement(Opcode::all_to_all, 0, 0), back = movement(Opcode::all_to_all, 1, 1);
  there.to_dim = 1, there.to_table = 1, back.to_dim = 0, back.to_table = 0;
  insert_after(plan, at, there, {Placement::sharded(1, 1)});
  insert_after(plan, at + 1, back, {Placement::sharded(0, 0)});
  expect_proved(p, plan);
}

TEST(Rewrite, RedundantBroadcast) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  Instruction i = movement(Opcode::broadcast);
  i.root = 1;
  insert_after(plan, find(plan, p, Opcode::all_reduce, "d_w1"), i, {Placement::replicated()});
  expect_proved(p, plan);
}

TEST(Rewrite, AverageAndExtremaOfReplicas) {
  Program p = two_layers();
  for (ReduceOp reduce : {ReduceOp::average, ReduceOp::max, ReduceOp::min}) {
    SpmdProgram plan = data_parallel(p);
    Instruction i = movement(Opcode::all_reduce);
    i.reduce = reduce;
    insert_after(plan, find(plan, p, Opcode::all_reduce, "d_w1"), i, {Placement::replicated()});
    expect_proved(p, plan);
  }
}

TEST(Rewrite, OneDeviceKeepsAValueAndAllAddUp) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  int at = find(plan, p, Opcode::all_reduce, "d_w1");
  insert_after(plan, at, movement(Opcode::to_partial), {Placement::partial(ReduceOp::sum)});
  insert_after(plan, at + 1, movement(Opcode::all_reduce), {Placement::replicated()});
  expect_proved(p, plan);
}

TEST(Rewrite, DeadCode) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  int at = find(plan, p, Opcode::compute, "h");
  Instruction again = plan.instructions[at];
  plan.values.push_back({"h again", plan.values[again.result].node, plan.values[again.result].placements});
  again.result = ValueId(plan.values.size()) - 1;
  plan.instructions.insert(plan.instructions.begin() + at + 1, again);
  expect_proved(p, plan);
}

TEST(Rewrite, TheSameCutInOtherUnits) {
  Program p = two_layers();
  SpmdProgram plan = tensor_parallel(p, {0, 2, 6});
  plan.tables.push_back({"pairs", 0, 3, {0, 1, 3}});
  for (size_t i = 0; i < plan.instructions.size(); i += 2)
    for (Split& split : plan.instructions[i].splits)
      if (split.table == 0) split.table = 1;
  expect_proved(p, plan);
}

/// u = f * g, v = u + f, w_new = w - v, all of one shape; a loss beside it.
Program products() {
  ProgramBuilder p;
  Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("f", NodeKind::input, {8, 3});
  p.leaf("g", NodeKind::input, {8, 3});
  p.leaf("w", NodeKind::parameter, {3});
  p.general("u", "bk,bk->bk", {"f", "g"}, a * b);
  p.general("v", "bk,bk->bk", {"u", "f"}, a + b);
  p.program.loss = p.general("loss", "bk->", {"v"}, a);
  p.general("su", "bk->k", {"u"}, a);
  p.general("sv", "bk->k", {"v"}, a);
  p.general("t", "k,k->k", {"su", "sv"}, a + b);
  p.general("w_new", "k,k->k", {"w", "t"}, a - b);
  p.update("w", "w_new");
  return p.program;
}

SpmdProgram product_plan(const Program& p, bool commuted, bool reduce_addends) {
  PlanBuilder b(p, {{"dp", 2}});
  int t = b.table("batch", 0, 8, {0, 3, 8});
  ValueId f = b.leaf("f", {Placement::sharded(0, t)}), g = b.leaf("g", {Placement::sharded(0, t)}), w = b.leaf("w");
  auto both = [&](ValueId x, ValueId y) { return commuted ? std::vector<ValueId>{y, x} : std::vector<ValueId>{x, y}; };
  ValueId u = b.compute("u", both(f, g), {{"b", t}});
  ValueId v = b.compute("v", both(u, f), {{"b", t}});
  b.plan.loss = b.all_reduce(b.compute("loss", {v}, {{"b", t}}), 0);
  ValueId su = b.compute("su", {u}, {{"b", t}}), sv = b.compute("sv", {v}, {{"b", t}});
  if (reduce_addends) su = b.all_reduce(su, 0), sv = b.all_reduce(sv, 0);
  ValueId sum = b.compute("t", both(su, sv));
  if (!reduce_addends) sum = b.all_reduce(sum, 0);
  b.final("w", b.compute("w_new", {w, sum}));
  return b.plan;
}

TEST(Rewrite, CommutedOperands) {
  Program p = products();
  expect_proved(p, product_plan(p, false, true));
  expect_proved(p, product_plan(p, true, true));
}

TEST(Rewrite, AllReducePerAddendOrOfTheSum) {
  Program p = products();
  expect_proved(p, product_plan(p, true, false));
  expect_proved(p, product_plan(p, false, false));
}

}  // namespace
}  // namespace hetsynth
