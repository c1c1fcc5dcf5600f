// Parts that overlap: what a halo brings, and what reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synth/planner/synthesize.h"
#include "tests/mutation/mutants.h"
#include "tests/mutation/survey.h"
#include "tests/support/plan_builder.h"
#include "tests/support/plan_fixture.h"
#include "verify/certificate.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

Verification expect(const Program& p, const SpmdProgram& plan, Verdict verdict) {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, verdict) << v.summary << "\n" << v.counterexample.text << "\n" << text(plan, p);
  return v;
}

/// Windows of three rows by weights, a relu, windows at every second row, squares; and the weights' gradient, which
/// sums over the rows that the windows slide over. Rows outside are zero.
Program sliding_step(int64_t height = 12) {
  ProgramBuilder p;
  const Expr a = Expr::input(0), b = Expr::input(1);
  p.leaf("x", NodeKind::input, {height, 2});
  p.leaf("w", NodeKind::parameter, {3});
  const auto rows = [](int y, int k, int64_t stride) {
    return DimIndex{{IndexTerm{.factor = y, .stride = stride}, IndexTerm{k}}, -1};
  };
  Space filter;
  int y = filter.add_factor("y", height, FactorKind::parallel), c = filter.add_factor("c", 2, FactorKind::parallel),
      k = filter.add_factor("k", 3, FactorKind::sum);
  filter.inputs = {{{rows(y, k, 1), index_by(c)}, true}, {{index_by(k)}}};
  filter.output = {{index_by(y), index_by(c)}};
  p.custom("h", {"x", "w"}, filter, a * b, {height, 2});
  p.general("a", "yc->yc", {"h"}, maximum(a, 0.0));
  Space coarse;
  y = coarse.add_factor("y", height / 2, FactorKind::parallel), c = coarse.add_factor("c", 2, FactorKind::parallel);
  k = coarse.add_factor("k", 3, FactorKind::sum);
  coarse.inputs = {{{rows(y, k, 2), index_by(c)}, true}};
  coarse.output = {{index_by(y), index_by(c)}};
  p.custom("s", {"a"}, coarse, a, {height / 2, 2});
  p.program.loss = p.general("loss", "yc->", {"s"}, a * a);
  Space gradient;
  k = gradient.add_factor("k", 3, FactorKind::parallel);
  y = gradient.add_factor("y", height, FactorKind::sum), c = gradient.add_factor("c", 2, FactorKind::sum);
  gradient.inputs = {{{rows(y, k, 1), index_by(c)}, true}, {{index_by(y), index_by(c)}}};
  gradient.output = {{index_by(k)}};
  p.custom("d_w", {"x", "h"}, gradient, a * b, {3});
  p.general("w_new", "k,k->k", {"w", "d_w"}, a - 0.1 * b);
  p.update("w", "w_new");
  return p.program;
}

/// How far the exchanges of x and of a reach.
struct Reach {
  int64_t x_before = 1, x_after = 1, a_before = 1, a_after = 0;
};

SpmdProgram by_rows(const Program& p, std::vector<int64_t> bounds, Reach reach = {}) {
  PlanBuilder b(p, {{"sp", int(bounds.size()) - 1}});
  const int rows = b.table("rows", 0, bounds.back(), bounds);
  const ValueId x = b.leaf("x", {Placement::sharded(0, rows)}), w = b.leaf("w");
  const ValueId wide = b.halo_exchange(x, 0, reach.x_before, reach.x_after);
  const ValueId h = b.compute("h", {wide, w}, {{"y", rows}}), a = b.compute("a", {h}, {{"y", rows}});
  const ValueId s = b.compute("s", {b.halo_exchange(a, 0, reach.a_before, reach.a_after)}, {{"y", rows}});
  b.plan.loss = b.all_reduce(b.compute("loss", {s}, {{"y", rows}}), 0);
  const ValueId d_w = b.all_reduce(b.compute("d_w", {wide, h}, {{"y", rows}}), 0);
  b.final("w", b.compute("w_new", {w, d_w}));
  return b.plan;
}

Instruction& at(SpmdProgram& plan, const Program& p, Opcode opcode, const std::string& node) {
  return plan.instructions.at(size_t(find(plan, p, opcode, node)));
}

TEST(Halo, PlansAreProvedWhateverTheShares) {
  const Program p = sliding_step();
  for (const std::vector<int64_t>& bounds : std::vector<std::vector<int64_t>>{
           {0, 3, 6}, {0, 1, 6}, {0, 1, 2, 6}, {0, 0, 5, 6, 6}, {0, 6, 6}, {0, 1, 2, 3, 4, 5, 6}, {0, 6}})
    expect(p, by_rows(p, bounds), Verdict::proved);
  // More than windows reach is no fault.
  expect(p, by_rows(p, {0, 2, 6}, {3, 2, 1, 12}), Verdict::proved);
}

TEST(Halo, InputsMayBeReadWithTheirHalo) {
  const Program p = sliding_step();
  SpmdProgram plan = by_rows(p, {0, 2, 6});
  const int exchange = find(plan, p, Opcode::halo_exchange, "x");
  plan.values[size_t(plan.leaves[0])].placements = {Placement::overlapping(0, 0, 1, 1)};
  drop(plan, exchange);
  expect(p, plan, Verdict::proved);
}

TEST(Halo, ElementsOfTheNeighboursMayBeReadTwice) {
  ProgramBuilder p;
  p.leaf("x", NodeKind::input, {4});
  p.program.loss = p.general("loss", "y->", {"x"}, Expr::input(0));
  PlanBuilder b(p.program, {{"sp", 2}});
  const int rows = b.table("rows", 0, 4, {0, 1, 4});
  const ValueId x = b.halo_exchange(b.leaf("x", {Placement::sharded(0, rows)}), 0, 2, 2);
  b.plan.loss = b.all_reduce(b.compute("loss", {x}, {{"y", rows}}), 0);
  expect(p.program, b.plan, Verdict::proved);  // each device sums its own rows alone
}

TEST(Halo, TooShortAReachIsRefuted) {
  const Program p = sliding_step();
  EXPECT_THAT(
      expect(p, by_rows(p, {0, 2, 6}, {0, 1, 1, 0}), Verdict::refuted).summary,
      HasSubstr("h reads 1 elements of x before each part over axis sp and 1 after it, but devices hold 0 and 1"));
  EXPECT_THAT(expect(p, by_rows(p, {0, 2, 6}, {1, 0, 1, 0}), Verdict::refuted).summary,
              HasSubstr("but devices hold 1 and 0"));
  EXPECT_THAT(expect(p, by_rows(p, {0, 2, 6}, {1, 1, 0, 1}), Verdict::refuted).summary,
              HasSubstr("s reads 1 elements of a before each part over axis sp and 0 after it"));
  SpmdProgram plan = by_rows(p, {0, 2, 6});
  drop(plan, find(plan, p, Opcode::halo_exchange, "a"));
  EXPECT_THAT(expect(p, plan, Verdict::refuted).summary, HasSubstr("but devices hold 0 and 0"));
}

/// Right at these boundaries, where both devices' windows end at the tensor's end or not at all: wrong at others.
TEST(Halo, WhatIsRightByAccidentIsNotProved) {
  const Program p = sliding_step();
  EXPECT_NE(verify(p, by_rows(p, {0, 6, 6}, {0, 1, 1, 0})).verdict, Verdict::proved);
}

TEST(Halo, MovementsThatWouldMeetOverlappingParts) {
  const Program p = sliding_step();
  const auto refuted = [&](auto change, const std::string& sentence) {
    SpmdProgram plan = by_rows(p, {0, 2, 6});
    change(plan);
    EXPECT_THAT(expect(p, plan, Verdict::refuted).summary, HasSubstr(sentence));
  };
  refuted(
      [&](SpmdProgram& plan) {
        // The relu's input is gathered from parts that overlap.
        const ValueId wide = at(plan, p, Opcode::halo_exchange, "a").result;
        Instruction gather;
        gather.opcode = Opcode::all_gather;
        gather.operands = {wide};
        gather.axis = 0, gather.dim = 0, gather.table = 0;
        plan.values.push_back({"whole", plan.values[size_t(wide)].node, {Placement::replicated()}});
        gather.result = ValueId(plan.values.size()) - 1;
        const int reader = find(plan, p, Opcode::compute, "s");
        plan.instructions[size_t(reader)].operands = {gather.result};
        plan.instructions.insert(plan.instructions.begin() + reader, gather);
      },
      "a is cut in dimension 0 by table rows over axis sp with 1 elements before each part and 0 after where "
      "all_gather "
      "expects it cut in dimension 0 by table rows over axis sp");
  refuted(
      [&](SpmdProgram& plan) {
        plan.tables.push_back({"others", 0, 6, {0, 3, 6}});
        at(plan, p, Opcode::halo_exchange, "a").table = 1;
      },
      "where halo_exchange expects it cut in dimension 0 by table others");
  refuted([&](SpmdProgram& plan) { at(plan, p, Opcode::halo_exchange, "a").dim = 1; }, "dimension 1");
}

TEST(Halo, FlawsOfForm) {
  const Program p = sliding_step();
  const auto broken = [&](auto change, const std::string& sentence) {
    SpmdProgram plan = by_rows(p, {0, 2, 6});
    change(plan);
    const Verification v = expect(p, plan, Verdict::refuted);
    EXPECT_EQ(v.counterexample.evidence, Evidence::form);
    EXPECT_THAT(v.summary, HasSubstr(sentence));
  };
  broken(
      [&](SpmdProgram& plan) { plan.values[size_t(plan.leaves[1])].placements = {Placement::overlapping(0, 0, 1, 0)}; },
      "w");  // three elements in six parts
  broken(
      [&](SpmdProgram& plan) {
        plan.tables.push_back({"thirds", 0, 3, {0, 1, 3}});
        plan.values[size_t(plan.leaves[1])].placements = {Placement::overlapping(0, 1, 1, 0)};
      },
      "parts of the parameter w overlap: it would be kept twice");
  broken([&](SpmdProgram& plan) { at(plan, p, Opcode::halo_exchange, "a").before = 0; },
         "exchanges no number of elements");
  broken([&](SpmdProgram& plan) { at(plan, p, Opcode::halo_exchange, "a").before = -1; },
         "exchanges no number of elements");
  broken([&](SpmdProgram& plan) { plan.values[0].placements[0].before = -1; }, "has no sensible placement");
  broken([&](SpmdProgram& plan) { at(plan, p, Opcode::halo_exchange, "a").realisation = Realisation::hierarchical; },
         "halo_exchange");
}

TEST(Halo, PartsOfPartsDoNotOverlap) {
  const Program p = sliding_step();
  PlanBuilder b(p, {{"host", 2}, {"sp", 2}});
  const int rows = b.table("rows", 1, 6, 0, {{0, 2, 6}, {0, 4, 6}});
  const ValueId x = b.leaf("x", {Placement::replicated(), Placement::sharded(0, rows)}), w = b.leaf("w");
  b.compute("h", {b.halo_exchange(x, 1, 1, 1), w}, {{"", -1}, {"y", rows}});
  EXPECT_THAT(verify(p, b.plan).summary,
              HasSubstr("parts of dimension 0 cannot overlap: table rows cuts differently along axis host"));
}

/// It would be carried out as if the tensor had both dimensions.
TEST(Halo, NothingIsExchangedFromADimensionToItself) {
  const Program p = sliding_step();
  SpmdProgram plan = by_rows(p, {0, 2, 6});
  Instruction& i = at(plan, p, Opcode::halo_exchange, "a");
  i.opcode = Opcode::all_to_all;
  i.to_dim = i.dim, i.to_table = i.table;
  plan.values[size_t(i.result)].placements = {Placement::sharded(0, 0)};
  EXPECT_THAT(expect(p, plan, Verdict::refuted).summary, HasSubstr("all_to_all of a from dimension 0 to the same"));
}

/// Of all systematic changes none is accepted that changes anything.
TEST(Halo, MutantsAreRefuted) {
  const Program p = sliding_step();
  mutation::Survey survey;
  mutation::each_mutant(p, by_rows(p, {0, 1, 4, 6}),
                        [&](mutation::Mutant mutant) {
                          survey.take("sliding", p, mutant);
                          return true;
                        },
                        {6, 1});
  const mutation::Tally total = survey.total();
  EXPECT_GT(total.refuted(), 40);
  EXPECT_EQ(total.wrongly_accepted, 0) << ::testing::PrintToString(survey.disagreements());
  EXPECT_EQ(total.wrongly_refused, 0) << ::testing::PrintToString(survey.disagreements());
  EXPECT_GT(survey.by_kind().at("halo_exchange dropped").refuted(), 0);
  EXPECT_GT(survey.by_kind().at("halo too short before").refuted(), 0);
}

/// What the planner finds where windows slide over few rows that are dear to move.
TEST(Halo, SynthesizedPlansAreProved) {
  const Program p = sliding_step(96);
  Cluster cluster = testing::plan_test_cluster();
  cluster.hosts[0].inside = {1e12, 1e-12};
  cluster.devices[0].declared.matmul_flops_per_second = 2e3;  // columns would be cut in halves
  cluster.devices[1].declared.matmul_flops_per_second = 1e3;
  const Plan plan = synthesize(p, cluster);
  EXPECT_GE(find(plan.program, p, Opcode::halo_exchange, "a"), 0) << text(plan.program, p);
  expect(p, plan.program, Verdict::proved);
}

TEST(Halo, CertificatesAreOfTheReach) {
  const Program p = sliding_step();
  EXPECT_NE(program_hash(by_rows(p, {0, 2, 6})), program_hash(by_rows(p, {0, 2, 6}, {2, 1, 1, 0})));
}

}  // namespace
}  // namespace hetsynth
