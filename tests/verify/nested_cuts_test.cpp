// One dimension cut along two mesh axes: what may be done with it, and what not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

using Rows = std::vector<std::vector<int64_t>>;
using Split2 = std::vector<std::pair<std::string, int>>;

const Placement R = Placement::replicated();

Verification expect(const Program& p, const SpmdProgram& plan, Verdict verdict) {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, verdict) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, p);
  return v;
}

/// Tables of a plan: the batch, its parts, and the same of the inputs of the first layer.
enum Table { batch, batch_parts, inputs, input_parts };

/// Data parallelism of two_layers over the axes "host" and "dp", the batch of 8 cut by `hosts` and each part by a row;
/// w1 and its momentum are cut along both axes as well (4 rows) and gathered within hosts first, w2 is whole.
SpmdProgram nested(const Program& p, const std::vector<int64_t>& hosts, const Rows& rows,
                   const std::vector<int64_t>& input_hosts, const Rows& input_rows) {
  PlanBuilder b(p, {{"host", int(hosts.size()) - 1}, {"dp", int(rows[0].size()) - 1}});
  b.table("batch", 0, hosts.back(), hosts);
  b.table("batch_parts", 1, hosts.back(), 0, rows);
  b.table("inputs", 0, input_hosts.back(), input_hosts);
  b.table("input_parts", 1, input_hosts.back(), 0, input_rows);
  const auto both = [](int dim, int outer) {
    return Placements{Placement::sharded(dim, outer), Placement::sharded(dim, outer + 1)};
  };
  const Split2 by_batch{{"b", batch}, {"b", batch_parts}}, by_inputs{{"k", inputs}, {"k", input_parts}};
  const auto summed = [&](ValueId v) { return b.all_reduce(b.all_reduce(v, 1), 0); };
  const ValueId x = b.leaf("x", both(0, batch)), y = b.leaf("y", both(0, batch)), w1 = b.leaf("w1", both(0, inputs)),
                w2 = b.leaf("w2", {R, R}), m1 = b.leaf("m1", both(0, inputs));
  const ValueId whole = b.all_gather(b.all_gather(w1, 1), 0);
  const ValueId h = b.compute("h", {x, whole}, by_batch), a = b.compute("a", {h}, by_batch),
                o = b.compute("o", {a, w2}, by_batch), d = b.compute("d", {o, y}, by_batch);
  b.plan.loss = summed(b.compute("loss", {d}, by_batch));
  const ValueId d_o = b.compute("d_o", {d}, by_batch), d_w2 = summed(b.compute("d_w2", {a, d_o}, by_batch)),
                d_a = b.compute("d_a", {d_o, w2}, by_batch), d_h = b.compute("d_h", {h, d_a}, by_batch);
  // The other way round: over hosts first, as the parts of the inner axis are parts of the outer one's.
  const ValueId d_w1 =
      b.reduce_scatter(b.reduce_scatter(b.compute("d_w1", {x, d_h}, by_batch), 0, 0, inputs), 1, 0, input_parts);
  const ValueId m1_new = b.compute("m1_new", {m1, d_w1}, by_inputs);
  b.final("w1", b.compute("w1_new", {w1, m1_new}, by_inputs));
  b.final("w2", b.compute("w2_new", {w2, d_w2}, {{"", -1}, {"", -1}}));
  b.final("m1", m1_new);
  return b.plan;
}

SpmdProgram usual(const Program& p) {
  return nested(p, {0, 5, 8}, {{0, 2, 5}, {5, 6, 8}}, {0, 2, 4}, {{0, 1, 2}, {2, 2, 4}});
}

Instruction& at(SpmdProgram& plan, const Program& p, Opcode opcode, const std::string& node) {
  return plan.instructions.at(size_t(find(plan, p, opcode, node)));
}

TEST(NestedCuts, AreProved) {
  const Program p = two_layers();
  const Verification v = expect(p, usual(p), Verdict::proved);
  EXPECT_THAT(v.lemma_names, ::testing::Contains("nested_parts"));
  // Three groups of two, empty parts and empty shares of parts.
  expect(p, nested(p, {0, 0, 7, 8}, {{0, 0, 0}, {0, 7, 7}, {7, 7, 8}}, {0, 1, 1, 4}, {{0, 0, 1}, {1, 1, 1}, {1, 3, 4}}),
         Verdict::proved);
  expect(p, nested(p, {0, 4, 8}, {{0, 1, 2, 4}, {4, 4, 4, 8}}, {0, 1, 2}, {{0, 0, 1, 1}, {1, 1, 2, 2}}),
         Verdict::proved);
}

/// The outer table may be one of equal rows, or one that nobody uses may be listed before it.
TEST(NestedCuts, EqualRowsAreOneTable) {
  const Program p = two_layers();
  SpmdProgram plan = usual(p);
  plan.tables[batch] = {"batch", 0, 8, {}, 1, {{0, 5, 8}, {0, 5, 8}}};
  expect(p, plan, Verdict::proved);
  plan = usual(p);
  plan.tables.insert(plan.tables.begin(), {"unused", 0, 8, {}, 1, {{0, 5, 8}, {0, 5, 8}}});
  for (Value& value : plan.values)
    for (Placement& placement : value.placements) placement.table += placement.table >= 0;
  for (Instruction& i : plan.instructions) {
    for (Split& split : i.splits) split.table += split.table >= 0;
    i.table += i.table >= 0, i.to_table += i.to_table >= 0;
  }
  expect(p, plan, Verdict::proved);
}

/// What only the outer axis cuts holds all that the parts of its parts need.
TEST(NestedCuts, OperandsMayBeHeldInTheOuterParts) {
  const Program p = two_layers();
  SpmdProgram plan = usual(p);
  plan.values[size_t(plan.leaves[1])].placements[1] = R;  // y
  const Verification v = expect(p, plan, Verdict::proved);
  EXPECT_EQ(p[plan.values[size_t(plan.leaves[1])].node].name, "y");
  EXPECT_GT(v.obligations, 0);
}

/// What is held in the parts of parts is not enough for a whole part.
TEST(NestedCuts, AWholePartNeedsAllOfIt) {
  const Program p = two_layers();
  SpmdProgram plan = usual(p);
  at(plan, p, Opcode::compute, "h").splits[1] = {};
  EXPECT_THAT(expect(p, plan, Verdict::refuted).summary, HasSubstr("x is needed whole over axis dp by h"));
}

TEST(NestedCuts, TheOuterAxisWaitsForTheInner) {
  const Program p = two_layers();
  SpmdProgram plan = usual(p);
  // w1 gathered over hosts while devices of a host still hold parts of the host's part.
  Instruction& first = at(plan, p, Opcode::all_gather, "w1");
  const ValueId between = first.result;
  first.axis = 0, first.table = inputs;
  plan.values[size_t(between)].placements = {R, R};
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::all_gather && i.operands[0] == between)
      i.opcode = Opcode::broadcast, i.axis = 1, i.dim = i.table = -1;
  EXPECT_THAT(expect(p, plan, Verdict::refuted).summary,
              HasSubstr("w1 is cut over axis dp by table input_parts, which differs along axis host: in all_gather"));
}

TEST(NestedCuts, PartsOfOtherPartsDoNotFit) {
  const Program p = two_layers();
  SpmdProgram plan = usual(p);
  plan.tables.push_back(plan.tables[batch_parts]);
  plan.tables.back().name = "others";
  plan.tables.back().rows = {{0, 3, 5}, {5, 6, 8}};
  at(plan, p, Opcode::compute, "h").splits[1].table = 4;
  plan.values[size_t(at(plan, p, Opcode::compute, "h").result)].placements[1].table = 4;
  EXPECT_THAT(expect(p, plan, Verdict::refuted).summary,
              HasSubstr("x is cut by table batch_parts over axis dp, but h runs over the parts of table others"));
}

TEST(NestedCuts, FlawsOfForm) {
  const Program p = two_layers();
  const auto broken = [&](auto change, const std::string& sentence) {
    SpmdProgram plan = usual(p);
    change(plan);
    const Verification v = expect(p, plan, Verdict::refuted);
    EXPECT_EQ(v.counterexample.evidence, Evidence::form);
    EXPECT_THAT(v.summary, HasSubstr(sentence));
  };
  broken(
      [](SpmdProgram& plan) {
        plan.tables[batch].bounds = {0, 4, 8};
      },
      "the rows of table batch_parts are not the parts of table batch");
  broken(
      [](SpmdProgram& plan) {
        plan.tables[batch_parts].rows = {{0, 2, 5}, {4, 6, 8}};
      },
      "table batch_parts ends at 5 of 8 units");  // no longer one behind the other: each should cover all
  broken(
      [](SpmdProgram& plan) {
        plan.tables[batch_parts].rows = {{0, 6, 5}, {5, 6, 8}};
      },
      "table batch_parts falls from 6 to 5");
  broken([](SpmdProgram& plan) { plan.values[size_t(plan.leaves[0])].placements[0] = R; },
         "dimension 0 cannot be cut so: table batch_parts divides parts over axis host, which does not cut it");
  broken([&](SpmdProgram& plan) { at(plan, p, Opcode::compute, "h").splits[0] = {}; },
         "factor b cannot be divided so: table batch_parts divides parts over axis host, which does not cut it");
  broken(
      [](SpmdProgram& plan) {
        plan.tables[inputs] = {"inputs", 0, 4, {}, 1, {{0, 2, 4}, {0, 1, 4}}};
      },
      "table input_parts divides parts of table inputs, which differ along axis dp");
  broken(
      [](SpmdProgram& plan) {
        plan.tables.push_back({"late", 0, 8, {}, 1, {{0, 2, 5}, {5, 6, 8}}});
      },
      "table late divides parts over axis dp, which does not come before its own");
}

}  // namespace
}  // namespace hetsynth
