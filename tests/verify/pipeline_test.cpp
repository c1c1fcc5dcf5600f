// Plans whose layers lie on different stages: proved, and refuted with a readable sentence where a value is not sent,
// or to or from the wrong place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelined_plan.h"
#include "tests/support/plan_builder.h"
#include "verify/refute/concrete.h"
#include "verify/verify.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

std::string listing(const SpmdProgram& plan, const Program& p) { return text(plan, p); }

/// The two layers on two stages: h and a on stage 0, o and the loss on stage 1.
std::vector<int> layer_per_stage(const Program& p) {
  std::vector<int> stages(p.nodes.size(), 0);
  for (const Node& node : p.nodes) {
    const bool second = node.name == "w2" || node.name == "o" || node.name == "d" || node.name == "loss" ||
                        node.name == "d_o" || node.name == "d_w2" || node.name == "d_a" || node.name == "w2_new";
    stages[size_t(node.id)] = node.kind == NodeKind::input ? -1 : second ? 1 : 0;
  }
  return stages;
}

SpmdProgram two_stages(const Program& p, const SpmdProgram& plan) {
  return pipelined_plan(p, plan, 2, layer_per_stage(p));
}

void expect_proved(const Program& p, const SpmdProgram& plan) {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text << "\n" << listing(plan, p);
}

void expect_refuted(const Program& p, const SpmdProgram& plan, const std::string& sentence,
                    Evidence evidence = Evidence::results) {
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted) << v.summary << "\n" << listing(plan, p);
  EXPECT_THAT(v.summary, HasSubstr(sentence)) << v.counterexample.text << "\n" << listing(plan, p);
  EXPECT_EQ(v.counterexample.evidence, evidence) << v.counterexample.text;
  EXPECT_FALSE(v.counterexample.text.empty());
}

Instruction& send_of(SpmdProgram& plan, const Program& p, const std::string& node) {
  return plan.instructions.at(size_t(find(plan, p, Opcode::send, node)));
}

TEST(Pipeline, IsProvedOverDataAndTensors) {
  const Program p = two_layers();
  for (const SpmdProgram& plan : {data_parallel(p), tensor_parallel(p), data_parallel(p, {0, 0, 8}),
                                  tensor_parallel(p, {0, 6, 6}), data_parallel(p, {0, 8})}) {
    const SpmdProgram pipelined = two_stages(p, plan);
    EXPECT_EQ(pipelined.mesh.axes[0].name, "pp");
    expect_proved(p, pipelined);
    EXPECT_THAT(verify(p, pipelined).assumptions.back(), HasSubstr("axis pp has pipeline stages"));
  }
}

TEST(Pipeline, StagesMayBeMoreThanLayersAndStandEmpty) {
  const Program p = two_layers();
  for (int stages : {1, 2, 3, 7})
    expect_proved(p, pipelined_plan(p, data_parallel(p), stages,
                                    stages == 1 ? std::vector<int>(p.nodes.size(), 0) : layer_per_stage(p)));
}

TEST(Pipeline, ComputesWhatOneDeviceDoes) {
  const Program p = two_layers();
  const SpmdProgram plan = two_stages(p, data_parallel(p));
  Bindings leaves;
  double number = 0.3;
  for (const Node& node : p.nodes) {
    if (!node.leaf()) continue;
    Array array(node.type.shape);
    for (double& v : array.values) v = (number = number * 3.7 * (1 - number)) - 0.4;
    leaves[node.id] = array;
  }
  const StepResult one = run_reference_step(p, leaves, {}), many = run_spmd_step(p, plan, leaves, {});
  EXPECT_NEAR(one.loss, many.loss, 1e-12);
  for (const Update& update : p.updates)
    for (size_t e = 0; e < one.leaves.at(update.target).values.size(); ++e)
      EXPECT_NEAR(one.leaves.at(update.target).values[e], many.leaves.at(update.target).values[e], 1e-12);
  // A stage holds its own values and nothing of the others'.
  const SpmdExecution execution = execute(p, plan, leaves, {});
  for (const Instruction& i : plan.instructions)
    for (int rank = 0; rank < plan.mesh.device_count(); ++rank)
      EXPECT_EQ(execution.holds(i.result, rank), holds(plan.mesh, plan.values[size_t(i.result)].placements, rank));
}

TEST(Pipeline, ASendThatIsMissing) {
  const Program p = two_layers();
  SpmdProgram plan = two_stages(p, data_parallel(p));
  drop(plan, find(plan, p, Opcode::send, "a"));
  expect_refuted(p, plan, "o is computed by stage 1 of axis pp alone, but a is held by stage 0 of axis pp alone");
}

TEST(Pipeline, ASendFromAStageThatDoesNotHoldIt) {
  const Program p = two_layers();
  SpmdProgram plan = pipelined_plan(p, data_parallel(p), 3, layer_per_stage(p));
  send_of(plan, p, "a").root = 2;
  expect_refuted(p, plan, "a is held by stage 0 of axis pp alone, but is sent from stage 2");
}

TEST(Pipeline, ASendToAnotherStage) {
  const Program p = two_layers();
  SpmdProgram plan = pipelined_plan(p, data_parallel(p), 3, layer_per_stage(p));
  Instruction& send = send_of(plan, p, "a");
  send.to = 2;
  plan.values[size_t(send.result)].placements[0] = Placement::stage(2);
  expect_refuted(p, plan, "o is computed by stage 1 of axis pp alone, but a is held by stage 2 of axis pp alone");
}

TEST(Pipeline, AWordThatNamesAnotherStage) {
  const Program p = two_layers();
  SpmdProgram plan = pipelined_plan(p, data_parallel(p), 3, layer_per_stage(p));
  const Instruction& send = send_of(plan, p, "a");
  plan.values[size_t(send.result)].placements[0] = Placement::stage(2);
  expect_refuted(p, plan, "is said to be held by stage 2 of axis pp alone, but is held by stage 1 of axis pp alone",
                 Evidence::word);
}

TEST(Pipeline, SendsInEachOthersPlace) {
  const Program p = two_layers(8, 4, 5, 5);  // a and d_a have equal shapes
  PlanBuilder b(p, {{"pp", 2}});
  SpmdProgram plan = two_stages(p, data_parallel(p, {0, 3, 8}));
  Instruction &forward = send_of(plan, p, "a"), &backward = send_of(plan, p, "d_a");
  EXPECT_EQ(forward.root, backward.to);
  // The gradient takes the place of the activation on its way.
  for (Instruction& i : plan.instructions)
    for (ValueId& operand : i.operands)
      if (operand == backward.result) operand = forward.operands[0];
  expect_refuted(p, plan, "d_h needs d_a as operand 1, but is given a");
}

TEST(Pipeline, ACollectiveOverTheStages) {
  const Program p = two_layers();
  SpmdProgram plan = two_stages(p, data_parallel(p));
  Instruction& send = send_of(plan, p, "a");
  send.opcode = Opcode::all_reduce;
  plan.values[size_t(send.result)].placements[0] = Placement::replicated();
  expect_refuted(p, plan, "in all_reduce it would meet devices that hold nothing");
}

TEST(Pipeline, ALossThatOneStageKeeps) {
  const Program p = two_layers();
  SpmdProgram plan = two_stages(p, data_parallel(p));
  drop(plan, find(plan, p, Opcode::broadcast, "loss"));
  expect_refuted(p, plan, "the loss loss ends held by stage 1 of axis pp alone");
}

TEST(Pipeline, ALossThatAnotherStageBroadcasts) {
  const Program p = two_layers();
  SpmdProgram plan = two_stages(p, data_parallel(p));
  plan.instructions[size_t(find(plan, p, Opcode::broadcast, "loss"))].root = 0;
  expect_refuted(p, plan, "loss is held by stage 1 of axis pp alone, but stage 0 is to broadcast it");
}

TEST(Pipeline, AnUpdateThatEndsOnAnotherStage) {
  const Program p = two_layers();
  std::vector<int> stages = layer_per_stage(p);
  stages[size_t(p.updates[0].value)] = 1;
  SpmdProgram plan = pipelined_plan(p, data_parallel(p), 2, stages);
  expect_proved(p, plan);  // it is sent back
  const std::string tensor = p[p.updates[0].value].name;
  drop(plan, find(plan, p, Opcode::send, tensor));
  Verification v = verify(p, plan);
  EXPECT_EQ(v.verdict, Verdict::refuted) << listing(plan, p);
  EXPECT_THAT(v.summary, HasSubstr("held by stage 1 of axis pp alone"));
}

TEST(Pipeline, FlawsOfForm) {
  const Program p = two_layers();
  SpmdProgram itself = two_stages(p, data_parallel(p));
  send_of(itself, p, "a").to = 0;
  expect_refuted(p, itself, "a is sent from stage 0 of axis pp to itself", Evidence::form);
  SpmdProgram outside = two_stages(p, data_parallel(p));
  send_of(outside, p, "a").to = 5;
  expect_refuted(p, outside, "sends to a stage outside of its axis", Evidence::form);
  SpmdProgram no_stage = two_stages(p, data_parallel(p));
  for (Instruction& i : no_stage.instructions)
    if (i.opcode == Opcode::compute) i.splits[0].stage = 9;
  expect_refuted(p, no_stage, "is left to a stage that axis pp does not have", Evidence::form);
}

/// What stands on one stage may also be summed over all: the others add nothing.
TEST(Pipeline, AStagesValueAsASummand) {
  const Program p = two_layers();
  SpmdProgram plan = two_stages(p, data_parallel(p));
  Instruction& broadcast = plan.instructions[size_t(find(plan, p, Opcode::broadcast, "loss"))];
  broadcast.opcode = Opcode::to_partial;
  const ValueId whole = broadcast.result, summand = ValueId(plan.values.size());
  plan.values.push_back(plan.values[size_t(whole)]);
  plan.values.back().name += "@P+";
  plan.values.back().placements[0] = Placement::partial(ReduceOp::sum);
  broadcast.result = summand;
  Instruction reduce;
  reduce.opcode = Opcode::all_reduce;
  reduce.operands = {summand};
  reduce.result = whole;
  reduce.axis = 0;
  plan.instructions.push_back(reduce);
  expect_proved(p, plan);
  plan.instructions.back().reduce = ReduceOp::average;
  EXPECT_EQ(verify(p, plan).verdict, Verdict::refuted);
}

/// Two micro-batches, both forward before either goes back: the activations must not be taken for each other.
Program two_micro_batches() {
  ProgramBuilder b;
  for (const char* n : {"1", "2"}) b.leaf(std::string("x") + n, NodeKind::input, {3, 4});
  b.leaf("w", NodeKind::parameter, {4, 4});
  b.leaf("v", NodeKind::parameter, {4, 4});
  for (const std::string n : {"1", "2"}) {
    b.einsum("h" + n, "bk,kn->bn", "x" + n, "w");
    b.einsum("o" + n, "bk,kn->bn", "h" + n, "v");
    b.einsum("g" + n, "bk,bn->kn", "h" + n, "o" + n);
  }
  b.general("l", "bn,bn->", {"o1", "o2"}, Expr::input(0) * Expr::input(0) + Expr::input(1) * Expr::input(1));
  b.program.loss = b.id("l");
  b.general("g", "kn,kn->kn", {"g1", "g2"}, Expr::input(0) + 2.0 * Expr::input(1));
  b.general("v_new", "kn,kn->kn", {"v", "g"}, Expr::input(0) - Expr::input(1));
  b.update("v", "v_new");
  b.general("w_new", "kn->kn", {"w"}, 0.5 * Expr::input(0));
  b.update("w", "w_new");
  return b.program;
}

SpmdProgram micro_batched(const Program& p, bool reversed) {
  PlanBuilder b(p, {{"pp", 2}});
  const auto on = [](int stage) { return std::vector<Split>{Split::on_stage(stage)}; };
  auto node = [&](const std::string& name) {
    for (const Node& n : p.nodes)
      if (n.name == name) return n.id;
    return NodeId(-1);
  };
  ValueId w = b.leaf("w", {Placement::stage(0)}), v = b.leaf("v", {Placement::stage(1)}), h[2], o[2], g[2];
  for (int m = 0; m < 2; ++m) {
    const std::string n = std::to_string(m + 1);
    h[m] = b.send(b.compute(node("h" + n), {b.leaf("x" + n), w}, on(0)), 0, 1);
  }
  if (reversed) std::swap(h[0], h[1]);
  for (int m = 0; m < 2; ++m) {
    const std::string n = std::to_string(m + 1);
    o[m] = b.compute(node("o" + n), {h[m], v}, on(1));
    g[m] = b.compute(node("g" + n), {h[m], o[m]}, on(1));
  }
  b.plan.loss = b.broadcast(b.compute(node("l"), {o[0], o[1]}, on(1)), 0, 1);
  b.final("v", b.compute(node("v_new"), {v, b.compute(node("g"), {g[0], g[1]}, on(1))}, on(1)));
  b.final("w", b.compute(node("w_new"), {w}, on(0)));
  return b.plan;
}

TEST(Pipeline, MicroBatchesKeepTheirOrder) {
  const Program p = two_micro_batches();
  expect_proved(p, micro_batched(p, false));
  expect_refuted(p, micro_batched(p, true), "o1 needs h1 as operand 0, but is given h2");
}

}  // namespace
}  // namespace hetsynth
