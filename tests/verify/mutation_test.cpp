// Wrong plans: each must be refuted with a counterexample, and told in words that name the fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

struct Mutant {
  std::string name;
  std::string summary;  ///< part of the sentence the user reads
  std::function<SpmdProgram(const Program&)> plan;
};

void PrintTo(const Mutant& m, std::ostream* out) { *out << m.name; }

void expect_refuted(const Program& reference, const Mutant& mutant) {
  SpmdProgram plan = mutant.plan(reference);
  Verification v = verify(reference, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted) << v.summary << "\n" << text(plan, reference);
  EXPECT_THAT(v.summary, HasSubstr(mutant.summary)) << v.counterexample.text;
  EXPECT_FALSE(v.counterexample.text.empty());
}

Instruction& at(SpmdProgram& plan, const Program& p, Opcode opcode, const std::string& node) {
  return plan.instructions.at(size_t(find(plan, p, opcode, node)));
}

SpmdProgram without(SpmdProgram plan, const Program& p, Opcode opcode, const std::string& node) {
  drop(plan, find(plan, p, opcode, node));
  return plan;
}

/// The value of a leaf.
ValueId leaf(const SpmdProgram& plan, const Program& p, const std::string& name) {
  for (ValueId v : plan.leaves)
    if (p[plan.values[v].node].name == name) return v;
  return -1;
}

ValueId result(SpmdProgram& plan, const Program& p, Opcode opcode, const std::string& node) {
  return at(plan, p, opcode, node).result;
}

SpmdProgram reduced_by(const Program& p, const std::string& node, ReduceOp reduce) {
  SpmdProgram plan = data_parallel(p);
  at(plan, p, Opcode::all_reduce, node).reduce = reduce;
  return plan;
}

/// Data parallelism whose gradient of w1 is reduced a second time.
SpmdProgram reduced_twice(const Program& p) {
  SpmdProgram plan = data_parallel(p);
  int first = find(plan, p, Opcode::all_reduce, "d_w1");
  Instruction again = plan.instructions[first];
  plan.values.push_back({"twice", plan.values[again.result].node, plan.values[again.result].placements});
  again.operands = {again.result};
  again.result = ValueId(plan.values.size()) - 1;
  at(plan, p, Opcode::compute, "m1_new").operands[1] = again.result;
  plan.instructions.insert(plan.instructions.begin() + first + 1, again);
  return plan;
}

SpmdProgram with_operands(SpmdProgram plan, const Program& p, const std::string& node, std::vector<ValueId> operands) {
  at(plan, p, Opcode::compute, node).operands = std::move(operands);
  return plan;
}

/// Two axes that both cut the batch of w1's gradient in turn: data over "a", hidden over "b".
SpmdProgram two_axes(const Program& p, int reduce_axis) {
  PlanBuilder b(p, {{"a", 2}, {"b", 2}});
  int batch = b.table("batch", 0, 8, {0, 3, 8});
  Placement cut = Placement::sharded(0, batch);
  ValueId x = b.leaf("x", {cut}), y = b.leaf("y", {cut}), w1 = b.leaf("w1"), w2 = b.leaf("w2"), m1 = b.leaf("m1");
  ValueId h = b.compute("h", {x, w1}, {{"b", batch}}), a = b.compute("a", {h}, {{"b", batch}});
  ValueId d = b.compute("d", {b.compute("o", {a, w2}, {{"b", batch}}), y}, {{"b", batch}});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {{"b", batch}}), reduce_axis);
  ValueId d_o = b.compute("d_o", {d}, {{"b", batch}});
  ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {{"b", batch}}), 0);
  ValueId d_h = b.compute("d_h", {h, b.compute("d_a", {d_o, w2}, {{"b", batch}})}, {{"b", batch}});
  ValueId d_w1 = b.all_reduce(b.compute("d_w1", {x, d_h}, {{"b", batch}}), 0);
  ValueId m1_new = b.compute("m1_new", {m1, d_w1});
  b.final("w1", b.compute("w1_new", {w1, m1_new}));
  b.final("w2", b.compute("w2_new", {w2, d_w2}));
  b.final("m1", m1_new);
  return b.plan;
}

/// ZeRO-1 for w1 over "dp"; `fault` chooses what goes wrong.
enum class ZeroFault {
  gradient_also_reduced,
  shard_not_gathered,
  slice_by_another_table,
  gather_by_another_table,
  scatter_by_another_table
};
SpmdProgram sharded_state(const Program& p, ZeroFault fault) {
  PlanBuilder b(p, {{"dp", 2}});
  int batch = b.table("batch", 0, 8, {0, 3, 8}), rows = b.table("rows", 0, 4, {0, 1, 4});
  int other = b.table("other", 0, 4, {0, 2, 4});
  Placement cut = Placement::sharded(0, batch);
  ValueId x = b.leaf("x", {cut}), y = b.leaf("y", {cut}), w1 = b.leaf("w1"), w2 = b.leaf("w2");
  ValueId m1 = b.leaf("m1", {Placement::sharded(0, rows)});
  ValueId h = b.compute("h", {x, w1}, {{"b", batch}}), a = b.compute("a", {h}, {{"b", batch}});
  ValueId d = b.compute("d", {b.compute("o", {a, w2}, {{"b", batch}}), y}, {{"b", batch}});
  b.plan.loss = b.all_reduce(b.compute("loss", {d}, {{"b", batch}}), 0);
  ValueId d_o = b.compute("d_o", {d}, {{"b", batch}});
  ValueId d_w2 = b.all_reduce(b.compute("d_w2", {a, d_o}, {{"b", batch}}), 0);
  ValueId d_h = b.compute("d_h", {h, b.compute("d_a", {d_o, w2}, {{"b", batch}})}, {{"b", batch}});
  ValueId d_w1 = b.compute("d_w1", {x, d_h}, {{"b", batch}});
  if (fault == ZeroFault::gradient_also_reduced) d_w1 = b.all_reduce(d_w1, 0);
  d_w1 = b.reduce_scatter(d_w1, 0, 0, fault == ZeroFault::scatter_by_another_table ? other : rows);
  ValueId m1_new = b.compute("m1_new", {m1, d_w1}, {{"k", rows}});
  ValueId slice = b.slice(w1, 0, 0, fault == ZeroFault::slice_by_another_table ? other : rows);
  ValueId w1_new = b.compute("w1_new", {slice, m1_new}, {{"k", rows}});
  b.plan.values[w1_new].placements = {Placement::sharded(0, rows)};
  if (fault != ZeroFault::shard_not_gathered) w1_new = b.all_gather(w1_new, 0);
  if (fault == ZeroFault::gather_by_another_table) b.plan.instructions.back().table = other;
  b.final("w1", w1_new);
  b.final("w2", b.compute("w2_new", {w2, d_w2}));
  b.final("m1", m1_new);
  return b.plan;
}

const Mutant layer_mutants[] = {
    {"the sum over the tensor axis is dropped", "o is partial over axis tp and never reduced",
     [](const Program& p) { return without(tensor_parallel(p), p, Opcode::all_reduce, "o"); }},
    {"the sum of a gradient is dropped", "d_w1 is partial over axis dp and never reduced",
     [](const Program& p) { return without(data_parallel(p), p, Opcode::all_reduce, "d_w1"); }},
    {"the gradient is reduced twice", "d_w1 is already whole on every device of axis dp", reduced_twice},
    {"a mean in place of a sum", "d_w1 is partial(sum) over axis dp, but all_reduce takes the average",
     [](const Program& p) { return reduced_by(p, "d_w1", ReduceOp::average); }},
    {"a maximum in place of a sum", "d_w2 is partial(sum) over axis dp, but all_reduce takes the max",
     [](const Program& p) { return reduced_by(p, "d_w2", ReduceOp::max); }},
    {"a product in place of a sum", "but all_reduce takes the product",
     [](const Program& p) { return reduced_by(p, "d_w2", ReduceOp::product); }},
    {"a mean of local losses", "loss is partial(sum) over axis dp, but all_reduce takes the average",
     [](const Program& p) { return reduced_by(p, "loss", ReduceOp::average); }},
    {"the loss of the local batch", "the loss loss ends partial(sum) over axis dp",
     [](const Program& p) { return without(data_parallel(p), p, Opcode::all_reduce, "loss"); }},
    {"the loss reduced over the wrong axis", "loss is already whole on every device of axis b",
     [](const Program& p) { return two_axes(p, 1); }},
    {"broadcast for all-reduce", "d_w1 is partial(sum) over axis dp: a broadcast",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       at(plan, p, Opcode::all_reduce, "d_w1").opcode = Opcode::broadcast;
       return plan;
     }},
    {"a table that leaves a gap", "leaves units without a device",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       plan.tables[0].bounds = {0, 3, 7};
       return plan;
     }},
    {"a table whose shares overlap", "so that shares overlap",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p, {0, 3, 5, 8});
       plan.tables[0].bounds = {0, 5, 3, 8};
       return plan;
     }},
    {"a slice by another table", "w1 is cut by table other over axis dp, but w1_new runs over the parts of table rows",
     [](const Program& p) { return sharded_state(p, ZeroFault::slice_by_another_table); }},
    {"a gather by another table", "w1_new is cut in dimension 0 by table rows over axis dp where all_gather expects",
     [](const Program& p) { return sharded_state(p, ZeroFault::gather_by_another_table); }},
    {"a reduce-scatter by another table", "d_w1 is cut by table other over axis dp, but m1_new runs over",
     [](const Program& p) { return sharded_state(p, ZeroFault::scatter_by_another_table); }},
    {"a gradient reduced before it is scattered", "d_w1 is already whole on every device of axis dp: reduce_scatter",
     [](const Program& p) { return sharded_state(p, ZeroFault::gradient_also_reduced); }},
    {"an updated shard that is not gathered", "the new contents of w1 end cut in dimension 0 by table rows",
     [](const Program& p) { return sharded_state(p, ZeroFault::shard_not_gathered); }},
    {"an all-to-all by another table", "h is cut in dimension 0 by table batch over axis dp where all_to_all expects",
     [](const Program& p) {
       PlanBuilder b(p, {{"dp", 2}});
       b.plan = data_parallel(p);
       int other = b.table("other", 0, 8, {0, 4, 8}), columns = b.table("columns", 0, 6, {0, 2, 6});
       ValueId h = result(b.plan, p, Opcode::compute, "h");
       int made = find(b.plan, p, Opcode::compute, "h");
       ValueId there = b.all_to_all(h, 0, 1, columns), back = b.all_to_all(there, 0, 0, 0);
       std::rotate(b.plan.instructions.begin() + made + 1, b.plan.instructions.end() - 2, b.plan.instructions.end());
       b.plan.instructions[made + 1].table = other;
       at(b.plan, p, Opcode::compute, "a").operands = {back};
       return b.plan;
     }},
    {"the sum before a nonlinear function is dropped",
     "h is partial over axis tp and never reduced, but a is not additive",
     [](const Program& p) {
       PlanBuilder b(p, {{"tp", 2}});
       int k = b.table("features", 0, 4, {0, 1, 4});
       ValueId x = b.leaf("x", {Placement::sharded(1, k)}), y = b.leaf("y"), w2 = b.leaf("w2"), m1 = b.leaf("m1");
       ValueId w1 = b.leaf("w1", {Placement::sharded(0, k)}), all_x = b.all_gather(x, 0), all_w1 = b.all_gather(w1, 0);
       ValueId h = b.compute("h", {x, w1}, {{"k", k}}), a = b.compute("a", {h});
       ValueId d = b.compute("d", {b.compute("o", {a, w2}), y}), d_o = b.compute("d_o", {d});
       b.plan.loss = b.compute("loss", {d});
       ValueId d_h = b.compute("d_h", {h, b.compute("d_a", {d_o, w2})});
       ValueId m1_new = b.compute("m1_new", {m1, b.compute("d_w1", {all_x, d_h})});
       b.final("w1", b.slice(b.compute("w1_new", {all_w1, m1_new}), 0, 0, k));
       b.final("w2", b.compute("w2_new", {w2, b.compute("d_w2", {a, d_o})}));
       b.final("m1", m1_new);
       return b.plan;
     }},
    {"an update sees the partial gradient",
     "d_w2 is partial over axis dp where w2_new, which is not additive in it, reads it before",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       at(plan, p, Opcode::compute, "w2_new").operands[1] = result(plan, p, Opcode::compute, "d_w2");
       return plan;
     }},
    {"operands of a difference swapped",
     "d takes y as operand 0, where the program has o, and is not the same with them exchanged",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       std::reverse(at(plan, p, Opcode::compute, "d").operands.begin(),
                    at(plan, p, Opcode::compute, "d").operands.end());
       return plan;
     }},
    {"operands of a contraction swapped", "d_a needs d_o as operand 0, but is given w2",
     [](const Program& p) {
       SpmdProgram plan = tensor_parallel(p);
       std::reverse(at(plan, p, Opcode::compute, "d_a").operands.begin(),
                    at(plan, p, Opcode::compute, "d_a").operands.end());
       return plan;
     }},
    {"a parameter in place of its momentum", "w1_new needs m1_new as operand 1, but is given w1",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       ValueId w1 = leaf(plan, p, "w1");
       return with_operands(plan, p, "w1_new", {w1, w1});
     }},
    {"an updated parameter in the backward pass", "d_a needs w2 as operand 1, but is given w2_new",
     [](const Program& p) {
       // The update of w2 moves before the gradient that reads w2.
       SpmdProgram plan = data_parallel(p);
       int update = find(plan, p, Opcode::compute, "w2_new"), reader = find(plan, p, Opcode::compute, "d_a");
       plan.instructions[reader].operands[1] = plan.instructions[update].result;
       std::rotate(plan.instructions.begin() + reader, plan.instructions.begin() + update,
                   plan.instructions.begin() + update + 1);
       return plan;
     }},
    {"the unreduced momentum of another step", "m1_new needs d_w1 as operand 1, but is given m1",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       ValueId m1 = leaf(plan, p, "m1");
       return with_operands(plan, p, "m1_new", {m1, m1});
     }},
    {"a value is read before it is made", "is read before it is defined",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       std::swap(plan.instructions[0], plan.instructions[1]);
       return plan;
     }},
    {"the wrong node is claimed", "a needs h as operand 0, but is given o",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       Instruction& d_o = at(plan, p, Opcode::compute, "d_o");
       d_o.node = p.nodes[size_t(plan.values[result(plan, p, Opcode::compute, "a")].node)].id;
       d_o.operands = {result(plan, p, Opcode::compute, "o")};
       return plan;
     }},
    {"a cut operand where the whole is needed", "h is needed whole over axis tp by a but is cut in dimension 1",
     [](const Program& p) {
       SpmdProgram plan = tensor_parallel(p);
       at(plan, p, Opcode::compute, "a").splits = {{}};
       return plan;
     }},
    {"a cut in the wrong dimension", "w1 is needed cut in dimension 1 over axis tp by h but is cut in dimension 0",
     [](const Program& p) {
       SpmdProgram plan = tensor_parallel(p);
       plan.tables.push_back({"rows", 0, 4, {0, 3, 4}});
       plan.values[leaf(plan, p, "w1")].placements = {Placement::sharded(0, 1)};
       return plan;
     }},
    {"a split that its operands do not follow",
     "x is cut by table batch over axis dp, but h runs over the parts of table other",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       plan.tables.push_back({"other", 0, 8, {0, 4, 8}});
       at(plan, p, Opcode::compute, "h").splits[0].table = 1;
       return plan;
     }},
    {"the new contents of two tensors exchanged", "the new contents of w1 are m1_new, not w1_new",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       std::swap(plan.finals[0].second, plan.finals[2].second);
       return plan;
     }},
    {"an update is forgotten", "w2 is never updated",
     [](const Program& p) {
       SpmdProgram plan = data_parallel(p);
       plan.finals.erase(plan.finals.begin() + 1);
       return plan;
     }},
    {"one part of a cut tensor for all", "h is cut in dimension 0 by table batch over axis dp: a broadcast",
     [](const Program& p) {
       PlanBuilder b(p, {{"dp", 2}});
       b.plan = data_parallel(p, {0, 4, 8});
       int made = find(b.plan, p, Opcode::compute, "h");
       ValueId h = result(b.plan, p, Opcode::compute, "h");
       ValueId wrong = b.broadcast(h, 0);
       b.plan.values[wrong].placements = b.plan.values[h].placements;
       std::rotate(b.plan.instructions.begin() + made + 1, b.plan.instructions.end() - 1, b.plan.instructions.end());
       at(b.plan, p, Opcode::compute, "a").operands = {wrong};
       return b.plan;
     }},
    {"parts added up as if they were summands",
     "h is cut in dimension 0 by table batch over axis dp: all_reduce would combine",
     [](const Program& p) {
       PlanBuilder b(p, {{"dp", 2}});
       b.plan = data_parallel(p, {0, 4, 8});
       int made = find(b.plan, p, Opcode::compute, "h");
       ValueId h = result(b.plan, p, Opcode::compute, "h");
       ValueId wrong = b.all_reduce(h, 0);
       b.plan.values[wrong].placements = b.plan.values[h].placements;
       std::rotate(b.plan.instructions.begin() + made + 1, b.plan.instructions.end() - 1, b.plan.instructions.end());
       at(b.plan, p, Opcode::compute, "a").operands = {wrong};
       return b.plan;
     }},
    {"a partial value left to one device", "d_w1 is partial(sum) over axis dp where only a replicated value",
     [](const Program& p) {
       PlanBuilder b(p, {{"dp", 2}});
       b.plan = data_parallel(p);
       int made = find(b.plan, p, Opcode::compute, "d_w1");
       ValueId wrong = b.to_partial(result(b.plan, p, Opcode::compute, "d_w1"), 0);
       std::rotate(b.plan.instructions.begin() + made + 1, b.plan.instructions.end() - 1, b.plan.instructions.end());
       at(b.plan, p, Opcode::all_reduce, "d_w1").operands = {wrong};
       return b.plan;
     }},
};

class LayerMutation : public ::testing::TestWithParam<Mutant> {};
TEST_P(LayerMutation, IsRefuted) { expect_refuted(two_layers(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Wrong, LayerMutation, ::testing::ValuesIn(layer_mutants));

/// Softmax over a cut dimension with the given reductions left out or replaced.
SpmdProgram softmax(const Program& p, bool reduce_max, ReduceOp max_op, bool reduce_sum) {
  PlanBuilder b(p, {{"tp", 2}});
  int t = b.table("n", 0, 6, {0, 2, 6});
  ValueId x = b.leaf("x"), w = b.leaf("w", {Placement::sharded(1, t)});
  ValueId o = b.compute("o", {x, w}, {{"n", t}}), mx = b.compute("mx", {o}, {{"n", t}});
  if (reduce_max) mx = b.all_reduce(mx, 0, max_op);
  ValueId e = b.compute("e", {o, mx}, {{"n", t}}), s = b.compute("s", {e}, {{"n", t}});
  if (reduce_sum) s = b.all_reduce(s, 0);
  ValueId q = b.compute("p", {e, s}, {{"n", t}});
  bool reads_maximum = p[p.loss].inputs.size() == 2;
  b.plan.loss = b.all_reduce(b.compute("loss", reads_maximum ? std::vector{q, mx} : std::vector{q}, {{"n", t}}), 0);
  b.final("w", b.compute("w_new", {w, b.compute("d_w", {x, q}, {{"n", t}})}, {{"n", t}}));
  return b.plan;
}

const Mutant softmax_mutants[] = {
    {"statistics of a slice", "s is partial over axis tp, over which p is divided",
     [](const Program& p) { return softmax(p, true, ReduceOp::max, false); }},
    {"maxima added up", "mx is partial(max) over axis tp, but all_reduce takes the sum",
     [](const Program& p) { return softmax(p, true, ReduceOp::sum, true); }},
    {"neither is reduced", "mx is partial over axis tp, over which e is divided",
     [](const Program& p) { return softmax(p, false, ReduceOp::max, false); }},
};

class SoftmaxMutation : public ::testing::TestWithParam<Mutant> {};
TEST_P(SoftmaxMutation, IsRefuted) { expect_refuted(softmax_layer(), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Wrong, SoftmaxMutation, ::testing::ValuesIn(softmax_mutants));

TEST(Counterexample, NamesTensorNumbersTablesAndLine) {
  Program p = two_layers();
  Verification v = verify(p, without(data_parallel(p), p, Opcode::all_reduce, "d_w1"));
  EXPECT_THAT(v.counterexample.text,
              ::testing::ContainsRegex("m1_new\\[[0-9],[0-9]\\] on device [01] is .*but the program says"));
  EXPECT_THAT(v.counterexample.text, HasSubstr("batch = [0,3,8]"));
  EXPECT_EQ(v.counterexample.where.text(), "model.cpp:16:1");
  EXPECT_EQ(v.instruction, find(data_parallel(p), p, Opcode::compute, "m1_new") - 1);
}

/// Too large to run at its own sizes, so that only shrunken instances can show the difference.
TEST(Counterexample, IsFoundOnASmallerInstance) {
  Program p = two_layers(512, 384, 1536, 384);
  Verification v = verify(p, without(data_parallel(p, {0, 200, 512}), p, Opcode::all_reduce, "d_w1"));
  EXPECT_EQ(v.verdict, Verdict::refuted);
  EXPECT_THAT(v.counterexample.text, HasSubstr("at other sizes and boundaries"));
  EXPECT_THAT(v.summary, HasSubstr("d_w1 is partial over axis dp and never reduced"));
}

/// The softmax is the same whatever number is subtracted: the results are right, but what the plan calls the maximum is
/// none.
TEST(Counterexample, AValueThatIsNotWhatThePlanSaysIsToldApartFromAWrongResult) {
  Program p = softmax_layer(false);
  Verification v = verify(p, softmax(p, true, ReduceOp::sum, true));
  EXPECT_EQ(v.verdict, Verdict::refuted) << v.counterexample.text;
  EXPECT_EQ(v.counterexample.evidence, Evidence::word);
  EXPECT_THAT(v.summary, HasSubstr("mx is partial(max) over axis tp, but all_reduce takes the sum"));
  EXPECT_THAT(v.counterexample.text, HasSubstr("the plan's word on value mx@tp:R#4 is wrong: mx[0] on device 0 is "));
  EXPECT_THAT(v.counterexample.text, HasSubstr("loss and updates are right all the same"));
}

TEST(Counterexample, AWrongWordOnAValueIsRefuted) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  NodeId a = plan.values[result(plan, p, Opcode::compute, "a")].node;
  plan.values[result(plan, p, Opcode::compute, "h")].node = a;
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted);
  EXPECT_EQ(v.counterexample.evidence, Evidence::word);
  EXPECT_THAT(v.summary, HasSubstr("is said to hold a, but holds h"));
}

/// A gradient that is said to be whole while it is a sum of parts, which the next instruction takes.
TEST(Counterexample, AWrongPlacementOfAValueIsRefuted) {
  Program p = two_layers();
  SpmdProgram plan = data_parallel(p);
  plan.values[result(plan, p, Opcode::compute, "d_w1")].placements = {Placement::replicated()};
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted);
  EXPECT_EQ(v.counterexample.evidence, Evidence::word);
  EXPECT_THAT(v.summary, HasSubstr("is said to be replicated over axis dp, but is partial(sum) over axis dp"));
}

/// Contradictions that leave nothing to compute are told without numbers.
TEST(Counterexample, APlanThatContradictsItselfIsRefutedByItsForm) {
  Program p = two_layers();
  auto refuted = [&](const char* why, auto change) {
    SpmdProgram plan = two_axes(p, 0);
    ASSERT_EQ(verify(p, plan).verdict, Verdict::proved);
    change(plan);
    Verification v = verify(p, plan);
    EXPECT_EQ(v.verdict, Verdict::refuted);
    EXPECT_EQ(v.counterexample.evidence, Evidence::form);
    EXPECT_THAT(v.summary, HasSubstr(why));
  };
  refuted("h is divided over axis b by table batch of axis a", [&](SpmdProgram& plan) {
    at(plan, p, Opcode::compute, "h").splits = {{}, {0, 0}};
  });
  refuted(
      "in h, factor b cannot be divided so: axis a and axis b both cut it, and table again does not divide the parts",
      [&](SpmdProgram& plan) {
        plan.tables.push_back({"again", 1, 8, {0, 5, 8}});
        at(plan, p, Opcode::compute, "h").splits[1] = {0, 1};
      });
  refuted("is said to be held as it cannot be: table batch belongs to axis a, not b", [&](SpmdProgram& plan) {
    Placements& word = plan.values[leaf(plan, p, "x")].placements;
    std::swap(word[0], word[1]);
  });
  refuted("w1 is updated twice", [&](SpmdProgram& plan) { plan.finals.push_back(plan.finals[0]); });
  refuted("x is updated, which the program does not ask for", [&](SpmdProgram& plan) {
    plan.finals.push_back({0, leaf(plan, p, "x")});
  });
  refuted("the plan computes no loss", [&](SpmdProgram& plan) { plan.loss = -1; });
}

/// One device holds everything: right there, wrong with any other boundary.
TEST(Counterexample, RightOnlyAtTheseBoundariesIsUnknown) {
  Program p = two_layers();
  SpmdProgram plan = without(data_parallel(p, {0, 0, 8}), p, Opcode::all_reduce, "loss");
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted);  // device 0 ends with a loss of zero
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::all_reduce) i.opcode = Opcode::broadcast, i.root = 1;
  plan.loss = -1;
  Program without_loss = p;
  without_loss.loss = -1;
  v = verify(without_loss, plan);
  EXPECT_EQ(v.verdict, Verdict::unknown) << v.counterexample.text;
  EXPECT_THAT(v.counterexample.text, HasSubstr("at other sizes and boundaries"));
}

}  // namespace
}  // namespace hetsynth
