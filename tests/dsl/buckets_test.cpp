// Which collectives of gradients travel together, and where in the program they start.
#include "dsl/spmd/buckets.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "dsl/spmd/plan.h"
#include "tests/support/error_of.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// `count` parameters [width, width] with gradients x^T y, made in the order g0, g1, ..., and steps new0 = w0 - g0.
struct Gradients {
  explicit Gradients(int count, int64_t width = 8) {
    ProgramBuilder builder;
    builder.leaf("x", NodeKind::input, {6, width});
    builder.leaf("y", NodeKind::input, {6, width});
    for (int i = 0; i < count; ++i) builder.leaf(fmt::format("w{}", i), NodeKind::parameter, {width, width});
    for (int i = 0; i < count; ++i) {
      const NodeId gradient = builder.einsum(fmt::format("g{}", i), "bk,bn->kn", "x", "y");
      builder.program.nodes[size_t(gradient)].phase = Phase::backward;
    }
    for (int i = 0; i < count; ++i) {
      const std::string next = fmt::format("new{}", i);
      const NodeId updated = builder.general(next, "kn,kn->kn", {fmt::format("w{}", i), fmt::format("g{}", i)},
                                             Expr::input(0) - Expr::input(1));
      builder.program.nodes[size_t(updated)].phase = Phase::update;
      builder.update(fmt::format("w{}", i), next);
    }
    program = builder.program;
  }
  Program program;
};

/// By instruction in the new order: the tensor, with the letter of its bucket where it is in one.
std::vector<std::string> order(const Program& program, const SpmdProgram& plan) {
  const BucketedProgram out = gather_buckets(program, plan, DeviceKind::cuda);
  std::vector<std::string> names;
  for (size_t i = 0; i < out.program.instructions.size(); ++i) {
    const Instruction& instruction = out.program.instructions[i];
    names.push_back(program[out.program.values[size_t(instruction.result)].node].name);
    if (communicates(instruction.opcode)) names.back() += "+";
    if (out.bucket_of[i] >= 0) names.back() += fmt::format(" {}", char('A' + out.bucket_of[i]));
  }
  return names;
}

/// Data parallelism: every gradient is added up as soon as it is made; `updates_at_once`: and used.
SpmdProgram summed(const Program& program, int count, bool updates_at_once = false) {
  PlanBuilder plan(program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), y = plan.leaf("y", {Placement::sharded(0, batch)});
  std::vector<ValueId> weights, whole;
  for (int i = 0; i < count; ++i) weights.push_back(plan.leaf(fmt::format("w{}", i), {Placement::replicated()}));
  auto update = [&](int i) {
    plan.final(fmt::format("w{}", i), plan.compute(fmt::format("new{}", i), {weights[size_t(i)], whole[size_t(i)]}));
  };
  for (int i = 0; i < count; ++i) {
    whole.push_back(plan.all_reduce(plan.compute(fmt::format("g{}", i), {x, y}, {{"b", batch}}), 0));
    if (updates_at_once) update(i);
  }
  for (int i = 0; i < count && !updates_at_once; ++i) update(i);
  return plan.plan;
}

TEST(Buckets, SmallGradientsTravelTogetherWhenTheLastOfThemIsReady) {
  const Gradients g(3);
  EXPECT_THAT(order(g.program, summed(g.program, 3)),
              ElementsAre("g0", "g1", "g2", "g0+ A", "g1+ A", "g2+ A", "new0", "new1", "new2"));
}

TEST(Buckets, AreClosedWhenTheyAreFullWhileTheBackwardPassGoesOn) {
  // Four gradients of 1 MiB: of 4 MiB in all, a bucket takes 2 MiB.
  const Gradients g(4, 512);
  EXPECT_EQ(bucket_bytes(int64_t(4) << 20, DeviceKind::cuda), int64_t(2) << 20);
  EXPECT_THAT(order(g.program, summed(g.program, 4)),
              ElementsAre("g0", "g1", "g0+ A", "g1+ A", "g2", "g3", "g2+ B", "g3+ B", "new0", "new1", "new2", "new3"));
}

TEST(Buckets, WaitForNothingThatComesAfterTheFirstReader) {
  const Gradients g(2);
  EXPECT_THAT(order(g.program, summed(g.program, 2, true)), ElementsAre("g0", "g0+", "new0", "g1", "g1+", "new1"));
}

TEST(Buckets, HoldNothingThatTheBackwardPassNeeds) {
  const Gradients g(3);
  PlanBuilder plan(g.program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), y = plan.leaf("y", {Placement::sharded(0, batch)});
  const ValueId g0 = plan.all_reduce(plan.compute("g0", {x, y}, {{"b", batch}}), 0);
  const ValueId g1 = plan.all_reduce(plan.compute("g1", {x, y}, {{"b", batch}}), 0);
  const ValueId g2 = plan.all_reduce(plan.compute("g2", {x, y}, {{"b", batch}}), 0);
  // g2 reads the sum of g0, as gradients of earlier layers read those of later ones.
  for (Instruction& i : plan.plan.instructions)
    if (i.opcode == Opcode::compute && i.node == plan.node("g2")) i.operands.push_back(g0);
  const ValueId w1 = plan.leaf("w1", {Placement::replicated()}), w2 = plan.leaf("w2", {Placement::replicated()});
  plan.final("w1", plan.compute("new1", {w1, g1}));
  plan.final("w2", plan.compute("new2", {w2, g2}));
  EXPECT_THAT(order(g.program, plan.plan), ElementsAre("g0", "g0+", "g1", "g2", "g1+ A", "g2+ A", "new1", "new2"));
}

TEST(Buckets, AreOfOneAxis) {
  const Gradients g(4);
  PlanBuilder plan(g.program, {{"dp", 2}, {"tp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6}), other = plan.table("other", 1, 6, {0, 3, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch), Placement::replicated()});
  const ValueId y = plan.leaf("y", {Placement::sharded(0, batch), Placement::replicated()});
  const ValueId u = plan.leaf("x", {Placement::replicated(), Placement::sharded(0, other)});
  const ValueId v = plan.leaf("y", {Placement::replicated(), Placement::sharded(0, other)});
  std::vector<ValueId> whole;
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("g{}", i);
    whole.push_back(i % 2 ? plan.all_reduce(plan.compute(name, {u, v}, {{"", -1}, {"b", other}}), 1)
                          : plan.all_reduce(plan.compute(name, {x, y}, {{"b", batch}, {"", -1}}), 0));
  }
  for (int i = 0; i < 4; ++i) {
    const ValueId w = plan.leaf(fmt::format("w{}", i), {Placement::replicated(), Placement::replicated()});
    plan.final(fmt::format("w{}", i), plan.compute(fmt::format("new{}", i), {w, whole[size_t(i)]}));
  }
  EXPECT_THAT(order(g.program, plan.plan),
              ElementsAre("g0", "g1", "g2", "g0+ A", "g2+ A", "g3", "g1+ B", "g3+ B", "new0", "new1", "new2", "new3"));
}

/// As `order`, of the program of cpu devices: every collective has the letter of its bucket.
std::vector<std::string> planned(const Program& program, const SpmdProgram& plan) {
  std::vector<std::string> names;
  for (const Instruction& instruction : plan.instructions) {
    names.push_back(program[plan.values[size_t(instruction.result)].node].name);
    if (instruction.bucket >= 0) names.back() += fmt::format("+ {}", char('A' + instruction.bucket));
  }
  return names;
}

TEST(PlannedBuckets, EveryCollectiveOfCpuDevicesMayRunBesideComputing) {
  const Gradients g(3), alone(1);
  EXPECT_THAT(planned(g.program, with_buckets(g.program, summed(g.program, 3))),
              ElementsAre("g0", "g1", "g2", "g0+ A", "g1+ A", "g2+ A", "new0", "new1", "new2"));
  EXPECT_THAT(planned(alone.program, with_buckets(alone.program, summed(alone.program, 1))),
              ElementsAre("g0", "g0+ A", "new0"));
  // At 64 KiB of latency times bandwidth, two gradients of 256 KiB each fill a bucket.
  EXPECT_EQ(bucket_bytes(int64_t(1) << 20, DeviceKind::cpu), int64_t(1) << 18);
}

/// ZeRO-1: gradients are scattered, every device updates its rows, and gathers the others'.
SpmdProgram sharded_updates(const Program& program, int count) {
  PlanBuilder plan(program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6}), rows = plan.table("rows", 0, 8, {0, 3, 8});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), y = plan.leaf("y", {Placement::sharded(0, batch)});
  std::vector<ValueId> parts;
  for (int i = 0; i < count; ++i) plan.leaf(fmt::format("w{}", i), {Placement::replicated()});
  for (int i = 0; i < count; ++i)
    parts.push_back(plan.reduce_scatter(plan.compute(fmt::format("g{}", i), {x, y}, {{"b", batch}}), 0, 0, rows));
  for (int i = 0; i < count; ++i) {
    const ValueId own = plan.slice(ValueId(2 + i), 0, 0, rows);
    const ValueId next = plan.compute(fmt::format("new{}", i), {own, parts[size_t(i)]}, {{"k", rows}});
    plan.final(fmt::format("w{}", i), plan.all_gather(next, 0));
  }
  return plan.plan;
}

TEST(PlannedBuckets, WhatTheUpdateGathersTravelsTogetherAtTheEnd) {
  const Gradients g(2);
  EXPECT_THAT(planned(g.program, with_buckets(g.program, sharded_updates(g.program, 2))),
              ElementsAre("g0", "g1", "g0+ A", "g1+ A", "w0", "new0", "w1", "new1", "new0+ B", "new1+ B"));
}

/// Layers h0 = x w0, h1 = h0 w1, ..., whose weights [width, width] are cut in rows and gathered where they are read.
struct CutLayers {
  explicit CutLayers(int count, int64_t width) {
    ProgramBuilder builder;
    builder.leaf("x", NodeKind::input, {6, width});
    for (int i = 0; i < count; ++i) builder.leaf(fmt::format("w{}", i), NodeKind::parameter, {width, width});
    for (int i = 0; i < count; ++i)
      builder.einsum(fmt::format("h{}", i), "bk,kn->bn", i ? fmt::format("h{}", i - 1) : "x", fmt::format("w{}", i));
    program = builder.program;
    PlanBuilder plan(program, {{"dp", 2}});
    const int batch = plan.table("batch", 0, 6, {0, 2, 6}), rows = plan.table("rows", 0, width, {0, 3, width});
    ValueId h = plan.leaf("x", {Placement::sharded(0, batch)});
    std::vector<ValueId> weights;
    for (int i = 0; i < count; ++i) weights.push_back(plan.leaf(fmt::format("w{}", i), {Placement::sharded(0, rows)}));
    for (int i = 0; i < count; ++i)
      h = plan.compute(fmt::format("h{}", i), {h, plan.all_gather(weights[size_t(i)], 0)}, {{"b", batch}});
    cut = plan.plan;
    cut.finals = {{0, h}};  // as if the step needed what the last layer makes
  }
  Program program;
  SpmdProgram cut;
};

TEST(PlannedBuckets, ParametersAreGatheredAheadOfTheirReaders) {
  // Six weights of 1 MiB, of which each fills a bucket. When the second is waited for the fifth begins, so that
  // four are under way.
  const CutLayers six(6, 512);
  ASSERT_EQ(most_under_way, 4);
  const SpmdProgram plan = with_buckets(six.program, six.cut);
  EXPECT_THAT(planned(six.program, plan),
              ElementsAre("w0+ A", "w1+ B", "w2+ C", "w3+ D", "h0", "w4+ E", "h1", "w5+ F", "h2", "h3", "h4", "h5"));
  EXPECT_THAT(waited_for_before(six.program, plan), ElementsAre(4, 6, 8, 9, 5, 10, 7, 11, 9, 10, 11, 12));
}

TEST(PlannedBuckets, SmallParametersAreGatheredTogether) {
  // The eight weights of 64 KiB each are 512 KiB in all, of which a bucket takes sqrt(64 KiB x 512 KiB) = 181 KiB.
  const CutLayers eight(8, 128);
  EXPECT_THAT(planned(eight.program, with_buckets(eight.program, eight.cut)),
              ElementsAre("w0+ A", "w1+ A", "w2+ A", "w3+ B", "w4+ B", "w5+ B", "w6+ C", "w7+ C", "h0", "h1", "h2",
                          "h3", "h4", "h5", "h6", "h7"));
}

TEST(PlannedBuckets, GatheredAheadStandsBeforeLoopsAndNotInThem) {
  // The readers of all weights but the last run in a loop.
  CutLayers six(6, 512);
  six.program.loops.push_back({});
  for (int i = 0; i < 5; ++i) six.program.nodes[size_t(7 + i)].loop = 0;
  std::vector<Instruction> gathers, products;
  for (const Instruction& i : six.cut.instructions) (communicates(i.opcode) ? gathers : products).push_back(i);
  six.cut.instructions = gathers;
  six.cut.instructions.insert(six.cut.instructions.end(), products.begin(), products.end());
  for (size_t i = 0; i < 6; ++i) six.program.nodes[size_t(six.cut.values[size_t(gathers[i].result)].node)].loop = -1;
  EXPECT_THAT(planned(six.program, with_buckets(six.program, six.cut)),
              ElementsAre("w0+ A", "w1+ B", "w2+ C", "w3+ D", "w4+ E", "w5+ F", "h0", "h1", "h2", "h3", "h4", "h5"));
}

/// The loss of all devices is on its way while they compute gradients; only its mean reads it.
TEST(PlannedBuckets, WhatOnlyTellsOfTheStepWaitsAtItsEnd) {
  ProgramBuilder builder;
  builder.leaf("x", NodeKind::input, {6, 8});
  builder.leaf("w", NodeKind::parameter, {8, 8});
  builder.general("sum", "bk->", {"x"}, Expr::input(0));
  builder.general("mean", "->", {"sum"}, Expr::input(0) * Expr(0.125));
  builder.general("d", "bk->bk", {"x"}, Expr::input(0));
  const NodeId gradient = builder.einsum("g", "bk,bn->kn", "x", "d");
  const NodeId next = builder.general("next", "kn,kn->kn", {"w", "g"}, Expr::input(0) - Expr::input(1));
  builder.program.nodes[size_t(gradient)].phase = Phase::backward;
  builder.program.nodes[size_t(next)].phase = Phase::update;
  builder.update("w", "next");
  PlanBuilder plan(builder.program, {{"dp", 2}});
  const int batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(0, batch)}), w = plan.leaf("w", {Placement::replicated()});
  const ValueId mean = plan.compute("mean", {plan.all_reduce(plan.compute("sum", {x}, {{"b", batch}}), 0)});
  const ValueId d = plan.compute("d", {x}, {{"b", batch}});
  plan.final("w", plan.compute("next", {w, plan.all_reduce(plan.compute("g", {x, d}, {{"b", batch}}), 0)}));
  plan.plan.loss = mean;
  EXPECT_THAT(planned(builder.program, with_buckets(builder.program, plan.plan)),
              ElementsAre("sum", "sum+ A", "d", "g", "g+ B", "next", "mean"));
}

/// The loss reads what the step waits for anyway: it is told, and its sum begun, where it stands.
TEST(PlannedBuckets, WhatFollowsFromWhatTheStepNeedsIsToldWhereItStands) {
  ProgramBuilder builder;
  builder.leaf("x", NodeKind::input, {6, 8});
  builder.leaf("w", NodeKind::parameter, {8, 8});
  builder.general("h", "bk->b", {"x"}, Expr::input(0));
  builder.general("sum", "b->", {"h"}, Expr::input(0));
  builder.general("mean", "->", {"sum"}, Expr::input(0) * Expr(0.125));
  builder.general("d", "b,bk->bk", {"h", "x"}, Expr::input(0) * Expr::input(1));
  builder.einsum("g", "bk,bn->kn", "x", "d");
  builder.general("next", "kn,kn->kn", {"w", "g"}, Expr::input(0) - Expr::input(1));
  builder.update("w", "next");
  PlanBuilder plan(builder.program, {{"dp", 2}});
  const int columns = plan.table("columns", 0, 8, {0, 2, 8}), batch = plan.table("batch", 0, 6, {0, 2, 6});
  const ValueId x = plan.leaf("x", {Placement::sharded(1, columns)}), w = plan.leaf("w", {Placement::replicated()});
  const ValueId h = plan.reduce_scatter(plan.compute("h", {x}, {{"k", columns}}), 0, 0, batch);
  const ValueId mean = plan.compute("mean", {plan.all_reduce(plan.compute("sum", {h}, {{"b", batch}}), 0)});
  const ValueId rows = plan.all_to_all(x, 0, 0, batch);
  const ValueId d = plan.compute("d", {h, rows}, {{"b", batch}});
  plan.final("w", plan.compute("next", {w, plan.all_reduce(plan.compute("g", {rows, d}, {{"b", batch}}), 0)}));
  plan.plan.loss = mean;
  EXPECT_THAT(planned(builder.program, with_buckets(builder.program, plan.plan)),
              ElementsAre("h", "h+ A", "sum", "sum+ B", "x+ C", "d", "g", "g+ D", "next", "mean"));
}

TEST(PlannedBuckets, NothingIsAheadWhereThereIsNoRoomForIt) {
  const CutLayers six(6, 512);
  EXPECT_THAT(planned(six.program, with_buckets(six.program, six.cut, Beside::in_buckets)),
              ElementsAre("w0+ A", "h0", "w1+ B", "h1", "w2+ C", "h2", "w3+ D", "h3", "w4+ E", "h4", "w5+ F", "h5"));
  // Where collectives are to be alone, they share no bucket either.
  const Gradients g(3);
  EXPECT_THAT(planned(g.program, with_buckets(g.program, summed(g.program, 3), Beside::alone)),
              ElementsAre("g0", "g0+ A", "g1", "g1+ B", "g2", "g2+ C", "new0", "new1", "new2"));
}

TEST(PlannedBuckets, AreWaitedForWhereTheyAreRead) {
  const Gradients g(2);
  const SpmdProgram plan = with_buckets(g.program, sharded_updates(g.program, 2));
  //                                 g0 g1 +A +A w0 new0 w1 new1 +B  +B
  EXPECT_THAT(waited_for_before(g.program, plan), ElementsAre(1, 2, 5, 5, 5, 6, 7, 8, 10, 10));
}

/// Nothing stands between the members of a bucket: what a later one needs is there before the first begins.
TEST(PlannedBuckets, AMembersOperandIsWaitedForBeforeTheFirstMember) {
  const Gradients g(2);
  SpmdProgram plan = sharded_updates(g.program, 2);  // g0 +0 g1 +1 w0 new0 +a w1 new1 +b
  std::vector<Instruction>& all = plan.instructions;
  const Instruction reduce = all[1], gather = all[6];
  // g0, its sum alone, and a bucket of something else and a gather of that sum.
  all = {all[0], all[2], reduce, all[3], gather};
  all[2].bucket = 0, all[3].bucket = all[4].bucket = 1;
  all[4].operands = {reduce.result};
  EXPECT_EQ(waited_for_before(g.program, plan)[2], 3);
}

TEST(PlannedBuckets, AFewAreUnderWayAtOnce) {
  const int count = most_under_way + 2;
  const Gradients g(count);
  SpmdProgram plan = summed(g.program, count);
  int bucket = 0;
  for (Instruction& instruction : plan.instructions)
    if (communicates(instruction.opcode)) instruction.bucket = bucket++;
  const std::vector<int> waited = waited_for_before(g.program, plan);
  EXPECT_EQ(waited[1], 2 * most_under_way + 1) << "when the fifth begins";
  EXPECT_EQ(waited[3], 2 * most_under_way + 3);
  EXPECT_EQ(waited[5], 2 * count + 2) << "where it is read";
}

TEST(PlannedBuckets, WhatMayNotShareABucketIsSaid) {
  const Gradients g(2);
  SpmdProgram plan = summed(g.program, 2);  // g0 g0+ g1 g1+ new0 new1
  plan.instructions.resize(4);
  plan.instructions[1].bucket = plan.instructions[3].bucket = 0;
  EXPECT_EQ(why_not_in_bucket(g.program, plan, true), "collectives of one bucket stand one behind the other");
  std::swap(plan.instructions[1], plan.instructions[2]);
  EXPECT_EQ(why_not_in_bucket(g.program, plan, true), "");
  plan.instructions[2].opcode = Opcode::broadcast;
  EXPECT_EQ(why_not_in_bucket(g.program, plan, true),
            "only all-gathers, all-reduces and reduce-scatters that are not hierarchical share a bucket");
  plan.instructions[2].opcode = Opcode::all_reduce;
  plan.instructions[3].operands = {plan.instructions[2].result};
  EXPECT_EQ(why_not_in_bucket(g.program, plan, true), "a collective reads what another one of its bucket makes");
  plan.instructions[3].axis = 1;
  EXPECT_EQ(why_not_in_bucket(g.program, plan, true), "collectives of one bucket are over one axis");
}

TEST(PlannedBuckets, AreWrittenAndReadBackAndRefusedWithTheirPlace) {
  const Gradients g(2);
  Plan plan;
  plan.model_hash = hash_text(g.program);
  plan.program = with_buckets(g.program, sharded_updates(g.program, 2));
  for (const char* name : {"fast", "slow"}) plan.devices.emplace_back().name = name;
  const std::string json = plan_to_json(plan, g.program);
  EXPECT_THAT(json, HasSubstr("\"realisation\": \"native\", \"bucket\": 1"));
  const auto read = [&](const std::string& text) { return plan_from_json(text, "p.json", g.program); };
  EXPECT_EQ(read(json).program, canonical(plan.program));
  EXPECT_EQ(plan_to_json(read(json), g.program), json);
  EXPECT_THAT(text(plan.program, g.program), HasSubstr(" bucket 1"));
  // GPUs make buckets of their own.
  std::string on_gpus = json;
  const size_t kind = on_gpus.find("\"kind\": \"cpu\"");
  on_gpus.replace(kind, 13, "\"kind\": \"cuda\"");
  EXPECT_THAT(error_of([&] { read(on_gpus); }), HasSubstr("a collective has a bucket, but some devices are GPUs"));
  // The second member of the first bucket joins the second one, which begins later.
  std::string torn = json;
  const size_t second = torn.find("\"bucket\": 0", torn.find("\"bucket\": 0") + 1);
  torn.replace(second, 11, "\"bucket\": 1");
  EXPECT_THAT(error_of([&] { read(torn); }),
              AllOf(HasSubstr("p.json:"), HasSubstr("bucket] collectives of one bucket stand one behind the other"),
                    HasSubstr("give it a number of its own, or leave \"bucket\" out")));
}

}  // namespace
}  // namespace hetsynth::test
