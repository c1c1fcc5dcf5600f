// The operators of the list and the example models under verification.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/support/plan_builder.h"
#include "verify/refute/concrete.h"
#include "verify/refute/refute.h"
#include "verify/verify.h"

namespace gpt_example {
#include "examples/gpt.cpp"
}
namespace mlp_example {
#include "examples/mlp.cpp"
#include "hetsynth/build_paths.h"
}  // namespace mlp_example

namespace hetsynth {
namespace {

using namespace test;
using Settings = std::map<std::string, std::string>;

Program training_step(void (*model)(), const Settings& settings) {
  Trace trace("model.cpp", settings);
  run_builder(trace, model);
  return differentiate(trace);
}

const Settings tiny_gpt = {{"layers", "2"}, {"heads", "2"}, {"width", "4"}, {"batch", "4"}, {"seq", "3"}};
const Settings usual_gpt = {{"layers", "2"}, {"dropout", "0.1"}};
const Settings tiny_mlp = {{"context", "3"}, {"width", "2"}, {"hidden", "6"}, {"batch", "8"}};

void expect_proved(const Program& reference, const SpmdProgram& plan) {
  Verification v = verify(reference, plan);
  EXPECT_EQ(v.verdict, Verdict::proved) << v.summary << "\n" << v.counterexample.text;
}

/// A program of the sample's operator alone, its result being the new contents of a state.
Program program_of(const OperatorSample& sample) {
  ProgramBuilder b;
  std::vector<std::string> names;
  for (const TensorType& type : sample.inputs) {
    names.push_back("in" + std::to_string(names.size()));
    b.leaf(names.back(), NodeKind::input, type.shape, type.dtype);
  }
  TensorType out = sample.op->infer(sample.inputs);
  b.leaf("kept", NodeKind::state, out.shape, out.dtype);
  b.custom("out", names, sample.op->space(sample.inputs, out), sample.op->body(sample.inputs, out), out.shape);
  b.program.nodes.back().type.dtype = out.dtype;
  b.update("kept", "out");
  return b.program;
}

/// The operator with one factor divided by an uneven table; operands cut with it where they can be, if `cut` is set.
SpmdProgram divided(const Program& p, int factor, bool cut) {
  const Node& node = p.nodes.back();
  const Factor& f = node.space.factors[factor];
  PlanBuilder b(p, {{"axis", 3}});
  int t = b.table("uneven", 0, f.size, {0, f.size > 1 ? 1 : 0, f.size > 1 ? 1 : 0, f.size});
  std::vector<ValueId> operands;
  for (size_t j = 0; j < node.inputs.size(); ++j) {
    auto at = cut_of(node.space, node.space.inputs[j], p[node.inputs[j]].type.shape, factor);
    operands.push_back(b.leaf("in" + std::to_string(j), {at && cut ? Placement::sharded(at->dim, t) : Placement()}));
  }
  b.leaf("kept");
  ValueId out = b.compute("out", operands, {{f.name, t}});
  Placement made = b.plan.values[out].placements[0];
  if (made.kind == Placement::Kind::sharded) out = b.all_gather(out, 0);
  if (made.kind == Placement::Kind::partial) out = b.all_reduce(out, 0, made.reduce);
  b.final("kept", out);
  return b.plan;
}

TEST(Operators, EveryFactorThatMayBeDividedIsProved) {
  int proved = 0;
  for (const OperatorInfo& info : operator_list())
    for (const OperatorSample& sample : info.samples) {
      Program p = program_of(sample);
      const Node& node = p.nodes.back();
      for (int f = 0; f < int(node.space.factors.size()); ++f) {
        const Factor& factor = node.space.factors[f];
        bool divisible = factor.reduced() || (factor.kind == FactorKind::parallel &&
                                              cut_of(node.space, node.space.output, node.type.shape, f));
        for (bool cut : {false, true}) {
          Verification v = verify(p, divided(p, f, cut));
          EXPECT_EQ(v.verdict == Verdict::proved, divisible)
              << info.name << " " << sample.op->attributes() << " factor " << factor.name << ": " << v.summary << "\n"
              << text(node.space) << "\n"
              << v.counterexample.text;
          proved += divisible;
        }
      }
    }
  EXPECT_GT(proved, 150);
}

TEST(Models, PlansOfTheExamplesAreProved) {
  const std::pair<void (*)(), Settings> models[] = {
      {gpt_example::model, tiny_gpt}, {gpt_example::model, usual_gpt}, {mlp_example::model, tiny_mlp}};
  for (const auto& [model, settings] : models) {
    Program p = training_step(model, settings);
    for (const char* name : {"two-equal", "unequal", "three-unequal", "mixed-five"}) {
      Cluster cluster = load_cluster(std::string(HETSYNTH_SOURCE_DIR "/examples/clusters/") + name + ".toml");
      expect_proved(p, single_device_plan(p, cluster).program);
      expect_proved(p, data_parallel_plan(p, cluster, RatioRule::even).program);
      expect_proved(p, data_parallel_plan(p, cluster, RatioRule::proportional).program);
      expect_proved(p, synthesize(p, cluster).program);
    }
  }
}

Bindings random_batch(const Program& p) {
  Bindings leaves = initial_values(p, 3);
  for (const Node& node : p.nodes)
    if (node.kind == NodeKind::input) {
      Array array(node.type.shape);
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = double((i * 37 + 11) % 200);
      leaves[node.id] = array;
    }
  return leaves;
}

/// float64 against float64 in another order of additions, over three steps of training.
TEST(Models, ProvedPlansComputeTheReferenceStep) {
  Program p = training_step(gpt_example::model, tiny_gpt);
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/three-unequal.toml");
  for (const Plan& plan : {data_parallel_plan(p, cluster, RatioRule::proportional), synthesize(p, cluster)}) {
    Bindings reference = random_batch(p), spmd = reference;
    for (int step = 0; step < 3; ++step) {
      EvaluationContext context{7, step};
      StepResult a = run_reference_step(p, reference, context);
      StepResult b = run_spmd_step(p, plan.program, spmd, context);
      EXPECT_NEAR(a.loss, b.loss, 1e-9 * std::abs(a.loss));
      reference = a.leaves, spmd = b.leaves;
    }
  }
}

/// Every collective of a transformer's plan taken out in turn: never proved; wrong wherever evaluation says so.
TEST(Models, NoCollectiveOfATransformerIsSuperfluous) {
  Program p = training_step(gpt_example::model,
                            {{"layers", "1"}, {"heads", "2"}, {"width", "4"}, {"batch", "4"}, {"seq", "3"}});
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/two-equal.toml");
  SpmdProgram plan = data_parallel_plan(p, cluster).program;
  int refuted = 0;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].opcode == Opcode::compute) continue;
    SpmdProgram mutant = plan;
    drop(mutant, int(i));
    Verification v = verify(p, mutant);
    EXPECT_NE(v.verdict, Verdict::proved) << text(plan, p);
    if (v.verdict == Verdict::refuted) ++refuted;
  }
  EXPECT_GE(refuted, 10);
}

/// The default model is too large to run at its own sizes: smaller instances of its plan show what is wrong.
TEST(Models, WrongPlansOfTheDefaultModelAreRefuted) {
  Program p = training_step(gpt_example::model, {{"layers", "2"}});
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml");
  SpmdProgram plan = data_parallel_plan(p, cluster).program;
  for (const char* tensor : {"d_h0.mlp.up.weight", "d_wte", "d_h1.attn.out"}) {
    SpmdProgram mutant = plan;
    int at = find(plan, p, Opcode::all_reduce, tensor);
    ASSERT_GE(at, 0) << tensor << "\n" << text(plan, p);
    drop(mutant, at);
    Verification v = verify(p, mutant);
    EXPECT_EQ(v.verdict, Verdict::refuted) << v.summary;
    EXPECT_THAT(v.summary, ::testing::HasSubstr(std::string(tensor) + " is partial over axis"));
    EXPECT_THAT(v.counterexample.text, ::testing::HasSubstr("at other sizes"));
  }
}

TEST(Models, StepsOfMicroBatchesAndCheckpointsAreProved) {
  for (const Settings& more : {Settings{{"micro_batches", "3"}}, Settings{{"checkpoint", "1"}}}) {
    Settings settings = usual_gpt;
    settings.insert(more.begin(), more.end());
    Program gpt = training_step(gpt_example::model, settings);
    expect_proved(gpt, data_parallel_plan(gpt, load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml"),
                                          RatioRule::proportional)
                           .program);
  }
}

/// What is made again must be made of the same things: not of another layer's.
TEST(Models, AWrongRecomputationIsRefuted) {
  Settings settings = tiny_gpt;
  settings["checkpoint"] = "1";
  Program gpt = training_step(gpt_example::model, settings);
  SpmdProgram plan =
      data_parallel_plan(gpt, load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml")).program;
  auto made_again = [&](int region) -> Instruction& {
    for (Instruction& i : plan.instructions)
      if (i.opcode == Opcode::compute && gpt[i.node].recomputation == region && gpt[i.node].tag() == "gelu") return i;
    throw InternalError("every block has a gelu");
  };
  made_again(2).operands = made_again(1).operands;
  EXPECT_EQ(verify(gpt, plan).verdict, Verdict::refuted);
}

}  // namespace
}  // namespace hetsynth
