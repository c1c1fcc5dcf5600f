// Prices read off the program equal, to the picosecond, what the search summed up by classes and shares.
#include "synth/schedule/price.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "dsl/base/error.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/baselines/baselines.h"
#include "synth/model/distinct_devices.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/timeline.h"

namespace hetsynth {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

/// The plan's prediction by way of the function for plans from anywhere.
void expect_predicted(const Program& program, const Plan& plan, const Cluster& cluster) {
  auto prices = price_instructions(program, plan.program, cluster);
  EXPECT_EQ(step_seconds(prices), plan.prediction.objective_seconds);
  const Timeline timeline = simulate(plan.program, prices, unfolding_of(program, plan.program, cluster));
  EXPECT_EQ(timeline.seconds, plan.prediction.step_seconds);
  for (size_t d = 0; d < cluster.devices.size(); ++d) {
    double computing = 0, communicating = 0;
    for (const InstructionPrice& price : prices)
      (price.communicates() ? communicating : computing) += price.device_seconds[d];
    const DevicePrediction& predicted = plan.prediction.devices[d];
    EXPECT_NEAR(computing, predicted.compute_seconds, 1e-12 * computing) << predicted.device;
    // What goes together has one latency.
    EXPECT_LE(predicted.communication_seconds, communicating * (1 + 1e-12)) << predicted.device;
    EXPECT_NEAR(
        predicted.compute_seconds + predicted.communication_seconds - predicted.hidden_seconds + predicted.idle_seconds,
        plan.prediction.step_seconds, 1e-12)
        << predicted.device;
  }
}

/// Choices lowered to a program, which is then priced instruction by instruction: the sum is what the search minimises.
void expect_objective(const synth::Problem& problem, RatioRule rule) {
  using namespace synth;
  Shares shares = common_shares(problem.classes, fractions_of(problem, rule));
  Conversions conversions(*problem.analysis, problem.cost, shares);
  Solution solution = search(problem, conversions, shares, {}, {});
  for (const Choices& choices : {solution.choices, data_parallel_choices(problem)}) {
    Picoseconds objective = total_cost(problem, conversions, shares, choices);
    SpmdProgram program = lower(problem, conversions, shares, choices);
    EXPECT_EQ(to_picoseconds(step_seconds(price_instructions(problem, program))), objective);
    EXPECT_EQ(to_picoseconds(predict(problem, shares, program).objective_seconds), objective);
    EXPECT_EQ(to_picoseconds(step_seconds(price_instructions(problem.program, program, problem.cluster))), objective);
  }
}

TEST(Price, EqualsThePredictionOfEveryKindOfPlan) {
  Program program = mlp(96, {48, 64, 40});
  for (const Cluster& cluster : {cluster_of_speeds({1e10, 1e10}), cluster_of_speeds({3e10, 1e10, 2e9}, 1e8, 1e-5),
                                 cluster_of_speeds({1e9, 1e9, 1e9, 1e9, 5e9}, 1e11, 1e-7)}) {
    expect_predicted(program, synthesize(program, cluster), cluster);
    for (RatioRule rule : {RatioRule::even, RatioRule::proportional}) {
      expect_predicted(program, data_parallel_plan(program, cluster, rule), cluster);
      expect_predicted(program, tensor_parallel_plan(program, cluster, rule), cluster);
    }
  }
}

TEST(Price, EqualsThePredictionOverSeveralHosts) {
  Program program = mlp(1024, {64, 128, 64});
  Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml");
  expect_predicted(program, data_parallel_plan(program, cluster, RatioRule::proportional), cluster);
  expect_predicted(program, tensor_parallel_plan(program, cluster), cluster);
  expect_predicted(program, synthesize(program, cluster), cluster);
}

/// Four unequal cores on two hosts, the link between them slow.
Cluster two_hosts() {
  Cluster cluster = cluster_of_speeds({2e10, 1e10, 1e10, 1e10}, 1e9, 1e-6);
  cluster.hosts.push_back(cluster.hosts[0]);
  cluster.hosts[1].name = "other";
  cluster.between = {1e7, 1e-5};
  cluster.devices[2].host = cluster.devices[3].host = 1;
  return cluster;
}

TEST(Price, EqualsTheObjectiveOnTwoAxesThatCrossHosts) {
  Program program = mlp(96, {48, 64, 40});
  auto analysis = std::make_shared<const synth::Analysis>(program, 2);
  for (const Mesh& mesh : {Mesh{{{"host", 2}, {"device", 2}}}, Mesh{{{"a", 4}, {"b", 1}}}})
    for (RatioRule rule : {RatioRule::even, RatioRule::proportional})
      expect_objective(synth::Problem(analysis, two_hosts(), mesh), rule);
}

/// Causal attention of two heads with its gradient: in blocks on cores.
TEST(Price, EqualsTheObjectiveWithAttention) {
  Trace trace("attention.cpp");
  run_builder(trace, [] {
    auto [tokens, targets] = text_batch(4, 128);
    Tensor table = parameter("table", {256, 32}, normal(0.02));
    Tensor x = embedding(table, tokens);
    auto heads = [&](const char* name) {
      return einsum("btc,chw->bthw", x, parameter(name, {32, 2, 16}, normal(0.1)));
    };
    Tensor mixed = reshape(attention(heads("q"), heads("k"), heads("v"), {.causal = true}), {4, 128, 32});
    minimize(cross_entropy(einsum("btc,vc->btv", mixed, table), targets), SGD{});
  });
  Program program = differentiate(trace);
  ASSERT_EQ(find_attention(program).size(), 1u);
  for (const Cluster& cluster : {cluster_of_speeds({1e10, 1e10}), two_hosts()}) {
    expect_predicted(program, synthesize(program, cluster), cluster);
    expect_objective(synth::Problem(program, cluster), RatioRule::proportional);
  }
  auto analysis = std::make_shared<const synth::Analysis>(program, 2);
  expect_objective(synth::Problem(analysis, two_hosts(), {{{"host", 2}, {"device", 2}}}), RatioRule::even);
}

/// Tables of conversions take an all-to-all one way for the other.
TEST(Price, OfConversionsIsThatOfEachOfThem) {
  using namespace synth;
  const Program program = mlp(96, {48, 64, 40});
  const Cluster cluster = load_cluster(HETSYNTH_SOURCE_DIR "/examples/clusters/mixed-five.toml");
  const Problem problem(program, cluster);
  const Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::proportional));
  const Conversions conversions(*problem.analysis, problem.cost, shares);
  int exchanged = 0;
  for (const Node& node : program.nodes) {
    const auto& forms = problem.rules.forms[node.id];
    for (size_t from = 0; from < forms.size(); ++from)
      for (size_t to = 0; to < forms.size(); ++to) {
        const Conversion &in_table = conversions.of(node.id).edge(int(from), int(to)),
                         alone = problem.cost.conversion(node.id, forms[from], forms[to], shares);
        EXPECT_EQ(in_table.possible, alone.possible);
        if (!alone.possible) continue;
        EXPECT_EQ(in_table.opcode, alone.opcode);
        EXPECT_EQ(in_table.realisation, alone.realisation);
        EXPECT_EQ(in_table.cost, alone.cost);
        exchanged += alone.opcode == Opcode::all_to_all;
      }
  }
  EXPECT_GT(exchanged, 10);
}

/// Devices that have as much of everything as one of the same type need not be asked.
RC_GTEST_PROP(Price, OfAnOperationIsThatOfTheSlowestDistinctDevice, ()) {
  using namespace synth;
  std::vector<double> speeds;
  for (int d = *rc::gen::inRange(0, 7); d >= 0; --d) speeds.push_back(*rc::gen::element(1e9, 3e9));
  const Program program = mlp(24, {12, 18, 6});
  const Problem problem(program, cluster_of_speeds(speeds));
  std::vector<double> parts;
  for (size_t d = 0; d < speeds.size(); ++d) parts.push_back(*rc::gen::element(0.0, 1.0, 2.0));
  parts[0] += 1;
  // One device alone is on no axis.
  const Shares shares = speeds.size() > 1 ? common_shares(problem.classes, {parts}) : Shares{};
  const DistinctDevices distinct(problem.cost, shares);
  for (int class_id = -1; class_id < int(shares.empty() ? 0 : shares[0].size()); ++class_id) {
    Work work;
    work.class_id[0] = class_id;
    for (int d = 0; d < int(speeds.size()); ++d) {
      const auto like = [&](int other) {
        const auto held = [&](int device) { return class_id < 0 ? 0 : shares[0][size_t(class_id)][size_t(device)]; };
        return problem.cluster.same_type(d, other) && held(d) == held(other);
      };
      RC_ASSERT(std::ranges::count_if(distinct.of(work), like) == 1);
    }
  }
  for (const Node& node : program.nodes) {
    if (node.leaf()) continue;
    for (const Option& option : problem.rules.options[node.id])
      RC_ASSERT(problem.cost.operator_cost(node.id, option, shares, distinct) ==
                problem.cost.operator_cost(node.id, option, shares));
  }
}

/// A product, a convolution-free loop and a sum on one device whose classes differ in speed.
TEST(Price, FollowsTheSpeedOfTheOperatorsClassAndWhatACallCosts) {
  ProgramBuilder b;
  NodeId x = b.input("x", {100, 50});
  NodeId w = b.parameter("w", {50, 20});
  NodeId product = b.op("product", "bk,kn->bn", {x, w});
  NodeId squares = b.op("squares", "bn,bn->bn", {product, product});
  b.program.loss = b.op("loss", "bn->", {squares});
  Cluster cluster = cluster_of_speeds({1e9});
  DeviceSpeed& speed = cluster.devices[0].declared;
  speed.memory_bytes_per_second = 1e15;
  speed.loop_flops_per_second = 1e6;
  speed.matmul_call_seconds = 3e-6;
  speed.loop_call_seconds = 7e-6;
  Plan plan = single_device_plan(b.program, cluster);
  auto prices = price_instructions(b.program, plan.program, cluster);
  ASSERT_EQ(prices.size(), 3u);
  EXPECT_NEAR(prices[0].seconds, 3e-6 + 2 * 100 * 50 * 20 / 1e9, 1e-12);
  EXPECT_NEAR(prices[1].seconds, 100 * 20 / 1e6, 1e-12);  // part of the sum's loop, no call of its own
  EXPECT_NEAR(prices[2].seconds, 7e-6 + 100 * 20 / 1e6, 1e-12);
  expect_predicted(b.program, plan, cluster);
}

TEST(Price, ProductsOf16BitsHaveTheSpeedOfTheirOperands) {
  const auto program_in = [](const char* precision) {
    Trace trace("product.cpp");
    run_builder(trace, [&] {
      mixed_precision(precision);
      Tensor x = synthetic_batch(1000, 100, 8).samples;
      Tensor y = matmul(x, parameter("w", {100, 100}, normal(0.1)));
      minimize(mean(y * y), SGD{});
    });
    return differentiate(trace);
  };
  Cluster cluster = cluster_of_speeds({1e9});
  cluster.devices[0].declared.memory_bytes_per_second = 1e15;
  // Two products a step, forward and by w, of 2 x 1000 x 100 x 100 operations each.
  const auto seconds_of_products = [&](const Program& program) {
    double seconds = 0;
    const SpmdProgram plan = single_device_plan(program, cluster).program;
    for (const InstructionPrice& price : price_instructions(program, plan, cluster))
      if (price.device_flops[0] == 2e7) seconds += price.device_seconds[0];
    return seconds;
  };
  const Program f32 = program_in("f32"), bf16 = program_in("bf16"), fp16 = program_in("fp16");
  EXPECT_NEAR(seconds_of_products(f32), 0.04, 1e-9);
  EXPECT_NEAR(seconds_of_products(bf16), 0.04, 1e-9) << "as float32 where nothing is said";
  cluster.devices[0].declared.matmul_bf16_flops_per_second = 8e9;
  EXPECT_NEAR(seconds_of_products(f32), 0.04, 1e-9);
  EXPECT_NEAR(seconds_of_products(bf16), 0.005, 1e-9);
  EXPECT_NEAR(seconds_of_products(fp16), 0.04, 1e-9) << "as float32 where nothing is said of it";
  cluster.devices[0].declared.matmul_fp16_flops_per_second = 16e9;
  EXPECT_NEAR(seconds_of_products(bf16), 0.005, 1e-9);
  EXPECT_NEAR(seconds_of_products(fp16), 0.0025, 1e-9);
  cluster.devices[0].declared.matmul_tf32_flops_per_second = 4e9;
  EXPECT_NEAR(seconds_of_products(f32), 0.04, 1e-9) << "nobody asked for TF32";
}

/// A V100 multiplies float32 1.94 times as fast as a T4, fp16 by tensor cores 1.92 times, and reads memory 2.8 times as
/// fast: where products take no time, the memory decides.
TEST(Price, PlansOfAV100AndAT4FollowTheSpeedOfTheOperands) {
  Cluster cluster = parse_cluster(
      "[[host]]\nname = \"lab\"\ninside = { bandwidth = \"12 GB/s\", latency = \"10 us\" }\n"
      "[[host.device]]\nmodel = \"V100\"\n[[host.device]]\nmodel = \"T4\"\n",
      "lab.toml");
  const auto program_in = [](const char* precision) {
    Trace trace("layers.cpp");
    run_builder(trace, [&] {
      mixed_precision(precision);
      Tensor x = synthetic_batch(4096, 1024, 8).samples;
      for (const char* name : {"w1", "w2", "w3"}) x = relu(matmul(x, parameter(name, {1024, 1024}, normal(0.03))));
      minimize(mean(x * x), SGD{});
    });
    return differentiate(trace);
  };
  const Plan f32 = synthesize(program_in("f32"), cluster), bf16 = synthesize(program_in("bf16"), cluster),
             fp16 = synthesize(program_in("fp16"), cluster);
  const auto seconds = [](const Plan& plan) { return plan.prediction.step_seconds; };
  EXPECT_LT(seconds(fp16), seconds(f32) / 2) << "by tensor cores";
  EXPECT_GT(seconds(bf16), seconds(fp16) * 2) << "of which neither has any for bf16";
  const auto shares = [](const Plan& plan) {
    std::vector<std::vector<int64_t>> out;
    for (const BoundaryTable& table : plan.program.tables) out.push_back(table.bounds);
    return out;
  };
  EXPECT_NE(shares(fp16), shares(f32)) << "what is not multiplied weighs more, and the memories differ by more";
}

TEST(Price, RefusesMoreAxesThanItKnows) {
  Program program = mlp(8, {4, 4});
  SpmdProgram spmd;
  for (int axis = 0; axis <= synth::max_axes; ++axis) spmd.mesh.axes.push_back({"axis", 1});
  try {
    price_instructions(program, spmd, cluster_of_speeds({1e10}));
    FAIL() << "priced";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[mesh] plans on so many mesh axes are not priced"));
    EXPECT_THAT(error.what(), HasSubstr("at most"));
  }
}

/// x of 6 rows on two devices of a link of 1e9 bytes/s and 1 us, gathered.
TEST(Price, OfAnUnevenGatherIsThatOfTheBytesTheOthersLack) {
  ProgramBuilder b;
  NodeId x = b.input("x", {6, 1000});
  b.program.loss = b.op("loss", "ab->", {x});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"dev", 2}};
  spmd.tables = {{"rows", 0, 6, {0, 5, 6}}};
  spmd.values = {{"x@S0", x, {Placement::sharded(0, 0)}}, {"x@R", x, {Placement::replicated()}}};
  spmd.leaves = {0};
  Instruction gather;
  gather.opcode = Opcode::all_gather;
  gather.result = 1;
  gather.operands = {0};
  gather.axis = 0;
  gather.dim = 0;
  gather.table = 0;
  spmd.instructions = {gather};
  Cluster cluster = cluster_of_speeds({1e10, 1e10}, 1e9, 1e-6);
  auto price = [&](Realisation realisation) {
    spmd.instructions[0].realisation = realisation;
    return price_instructions(b.program, spmd, cluster).at(0);
  };
  EXPECT_DOUBLE_EQ(price(Realisation::native).seconds, 1e-6 + 20000e-9);   // the second device lacks 5 rows
  EXPECT_DOUBLE_EQ(price(Realisation::padded).seconds, 1e-6 + 20000e-9);   // the longest shard goes round
  EXPECT_DOUBLE_EQ(price(Realisation::grouped).seconds, 2e-6 + 20000e-9);  // two rooted collectives
  EXPECT_DOUBLE_EQ(price(Realisation::native).bytes, 24000);
}

/// Stages on two hosts of two devices: both sends share the link of the host that they leave.
TEST(Price, OfASendIsThatOfTheLinkBetweenItsDevices) {
  ProgramBuilder b;
  NodeId x = b.input("x", {8, 1000});
  b.program.loss = b.op("loss", "ab->", {x});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"pp", 2}, {"dp", 2}};
  spmd.tables = {{"rows", 1, 8, {0, 6, 8}}};
  spmd.values = {{"x@0", x, {Placement::stage(0), Placement::sharded(0, 0)}},
                 {"x@1", x, {Placement::stage(1), Placement::sharded(0, 0)}}};
  spmd.leaves = {0};
  Instruction send;
  send.opcode = Opcode::send;
  send.result = 1;
  send.operands = {0};
  send.axis = 0;
  send.root = 0;
  send.to = 1;
  spmd.instructions = {send};
  Cluster cluster = two_hosts();
  cluster.between = {1e6, 1e-3};
  const InstructionPrice price = price_instructions(b.program, spmd, cluster)[0];
  EXPECT_DOUBLE_EQ(price.seconds, 1e-3 + 2 * 24000e-6);
  EXPECT_DOUBLE_EQ(price.device_seconds[1], 1e-3 + 2 * 8000e-6);
  EXPECT_DOUBLE_EQ(price.device_seconds[3], price.device_seconds[1]);
  EXPECT_DOUBLE_EQ(price.bytes, 24000);
  // As fast as the one host sends and the other receives.
  cluster.hosts[0].outside = {5e5, 1e3, {}};
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 1e-3 + 2 * 24000 / 5e5);
  cluster.hosts[1].outside = {{}, 2e5, 4e-3};
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 4e-3 + 2 * 24000 / 2e5);
  cluster.hosts[0].outside = cluster.hosts[1].outside = {};
  // From two hosts to one: both arrive over its link.
  Cluster gathered = cluster;
  gathered.hosts.push_back(gathered.hosts[0]);
  gathered.devices[1].host = 1, gathered.devices[2].host = gathered.devices[3].host = 2;
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, gathered)[0].seconds, 1e-3 + 2 * 24000e-6);
  gathered.hosts[2].outside.receiving_bytes_per_second = 2e6;
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, gathered)[0].seconds, 1e-3 + 24000e-6);
  // Stages inside of a host are nearer.
  spmd.mesh.axes = {{"dp", 2}, {"pp", 2}};
  spmd.tables[0].axis = 0;
  spmd.values[0].placements = {Placement::sharded(0, 0), Placement::stage(0)};
  spmd.values[1].placements = {Placement::sharded(0, 0), Placement::stage(1)};
  spmd.instructions[0].axis = 1;
  EXPECT_LT(price_instructions(b.program, spmd, cluster)[0].seconds, 1e-3);
}

/// A mesh of 2 x 2 over two hosts: inside the hosts the link is fast, between them slow.
TEST(Price, OfAnAxisIsThatOfTheLinksItRunsOver) {
  ProgramBuilder b;
  NodeId x = b.input("x", {8, 1000});
  b.program.loss = b.op("loss", "ab->", {x});
  SpmdProgram spmd;
  spmd.mesh.axes = {{"host", 2}, {"device", 2}};
  spmd.values = {{"x@P", x, {Placement::replicated(), Placement::partial(ReduceOp::sum)}},
                 {"x@R", x, {Placement::replicated(), Placement::replicated()}}};
  spmd.leaves = {0};
  Instruction reduce;
  reduce.opcode = Opcode::all_reduce;
  reduce.result = 1;
  reduce.operands = {0};
  reduce.axis = 1;
  spmd.instructions = {reduce};
  Cluster cluster = two_hosts();
  cluster.between = {1e6, 1e-3};
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 2e-6 + 32000e-9);
  spmd.values[0].placements = {Placement::partial(ReduceOp::sum), Placement::replicated()};
  spmd.instructions[0].axis = 0;
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds,
                   2e-3 + 64000e-6);  // two groups cross at once
  // A ring leaves every host and enters it.
  cluster.hosts[1].outside.receiving_bytes_per_second = 2e5;
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 2e-3 + 64000 / 2e5);
  cluster.hosts[1].outside = {4e6, 4e6, {}};
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 2e-3 + 64000e-6) << "the other limits it";
  cluster.hosts[0].outside = {2e6, 3e6, {}};
  EXPECT_DOUBLE_EQ(price_instructions(b.program, spmd, cluster)[0].seconds, 2e-3 + 64000 / 2e6);
}

}  // namespace
}  // namespace hetsynth
