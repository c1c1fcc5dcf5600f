// Plans of loops over time steps, from search to source: what they compute in float64 on uneven devices, what is proved
// of them and of their source, and that wrong ones are refuted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "dsl/ir/trace.h"
#include "dsl/spmd/unroll.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"
#include "verify/refute/concrete.h"
#include "verify/verify.h"

namespace rnnlm_scan_example {
#include "examples/rnnlm.cpp"
}

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

/// A scan of a cell of one's own under a layer that is a loop itself.
Program scan_program(int64_t steps) {
  Trace trace("scan.cpp");
  run_builder(trace, [&] {
    auto [tokens, targets] = token_batch(6, steps, 12);
    Tensor x = embedding(parameter("table", {12, 8}, uniform(0.5)), tokens);
    Tensor w = parameter("w", {8, 8}, uniform(0.5)), u = parameter("u", {8, 8}, uniform(0.5));
    ScanResult r = scan(x, {full({6, 8}, 0)}, [&](const std::vector<Tensor>& state, Tensor now) {
      Tensor h = tanh(matmul(now, w) + matmul(state[0], u));
      return ScanStep{{h}, h};
    });
    Tensor y = lstm(r.outputs, lstm_weights("lstm", 8, 8), {r.state[0], {}});
    minimize(cross_entropy(matmul(y, parameter("out", {8, 12}, uniform(0.5))), targets), SGD{.learning_rate = 0.1});
  });
  return differentiate(trace);
}

Program rnnlm_program(int64_t steps) {
  Trace trace("rnnlm.cpp", {{"size", "tiny"}, {"steps_unrolled", std::to_string(steps)}});
  run_builder(trace, rnnlm_scan_example::model);
  return differentiate(trace);
}

const Cluster three = unequal_cluster({1e9, 3e9, 2e9});

/// What the search finds at uneven shares of all devices, and data parallelism.
std::vector<SpmdProgram> plans_of(const Program& program) {
  SynthesisOptions options;
  options.pins.ratio = {1, 3, 2};
  return {synthesize(program, three, options).program,
          data_parallel_plan(program, three, RatioRule::proportional).program};
}

Bindings leaves_of(const Program& program) {
  Bindings leaves = initial_values(program, 3);
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::input) continue;
    Array array(node.type.shape);
    for (size_t i = 0; i < array.values.size(); ++i) array.values[i] = double(i * 7 % 12);
    leaves[node.id] = array;
  }
  return leaves;
}

void expect_near(const Array& a, const Array& b, const std::string& what) {
  ASSERT_EQ(a.shape, b.shape) << what;
  for (size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 1e-10) << what;
}

TEST(ScanPlan, ComputesTheStepOnUnevenDevices) {
  const Program program = scan_program(5);
  const Bindings leaves = leaves_of(program);
  const StepResult expected = run_reference_step(program, leaves, {});
  for (const SpmdProgram& plan : plans_of(program)) {
    const StepResult found = run_spmd_step(program, plan, leaves, {});
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    for (const Update& update : program.updates)
      expect_near(found.leaves.at(update.target), expected.leaves.at(update.target), program[update.target].name);
  }
}

TEST(ScanPlan, IsItsUnrolledPlan) {
  const Program program = scan_program(4);
  const Bindings leaves = leaves_of(program);
  const StepResult expected = run_reference_step(program, leaves, {});
  for (const SpmdProgram& plan : plans_of(program)) {
    const UnrolledPlan flat = unroll(program, plan);
    EXPECT_TRUE(flat.reference.loops.empty());
    EXPECT_EQ(verify(flat.reference, flat.program).verdict, Verdict::proved);
    Bindings given;
    for (const Node& node : flat.reference.nodes)
      if (node.leaf()) given[node.id] = leaves.at(flat.node_of[size_t(node.id)]);
    const StepResult found = run_spmd_step(flat.reference, flat.program, given, {});
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    for (const Update& update : program.updates)
      expect_near(found.leaves.at(flat.last_node[size_t(update.target)]), expected.leaves.at(update.target),
                  program[update.target].name);
  }
}

TEST(ScanPlan, IsProvedAndSoIsItsSource) {
  for (const Program& program : {scan_program(4), rnnlm_program(3)})
    for (const SpmdProgram& plan : plans_of(program)) {
      const Verification proof = verify(program, plan);
      EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
      const Generated g = generated(program, plan, three);
      for (int rank = 0; rank < 3; ++rank) {
        const SourceCheck found = check(g, rank);
        EXPECT_EQ(found.verdict, Verdict::proved) << "rank " << rank << " line " << found.line << ": " << found.summary;
      }
    }
}

TEST(ScanPlan, IsAsLongForManyStepsAsForFew) {
  const auto size = [](int64_t steps) {
    const Program program = rnnlm_program(steps);
    const SpmdProgram plan = data_parallel_plan(program, three, RatioRule::proportional).program;
    const std::string text = generated(program, plan, three).devices[0].files[0].text;
    return std::tuple(program.nodes.size(), plan.instructions.size(), std::count(text.begin(), text.end(), '\n'));
  };
  EXPECT_EQ(size(40), size(160));
}

TEST(ScanPlan, WrongSourceIsRefuted) {
  const Program program = scan_program(4);
  const Generated g =
      generated(program, single_device_plan(program, unequal_cluster({1e9})).program, unequal_cluster({1e9}));
  const std::string& text = g.devices[0].files[0].text;
  const auto replaced_first = [&](const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.substr(0, at) + to + text.substr(at + from.size());
  };
  EXPECT_EQ(check(g, 0).verdict, Verdict::proved);
  EXPECT_EQ(check(g, 0, replaced_first("turn < 4", "turn < 3")).verdict, Verdict::refuted);
  EXPECT_NE(check(g, 0, replaced_first("turn = 0; turn < 4", "turn = 1; turn < 5")).verdict, Verdict::proved);
  EXPECT_EQ(check(g, 0, replaced_first("    copy(", "    // copy(")).verdict, Verdict::refuted);
}

/// Instructions of a plan that compute nodes of a loop, by a test of the node.
int instruction_of(const Program& program, const SpmdProgram& plan, const std::function<bool(const Node&)>& wanted) {
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (plan.instructions[i].opcode == Opcode::compute && wanted(program[plan.instructions[i].node])) return int(i);
  ADD_FAILURE() << "no such instruction";
  return 0;
}

TEST(ScanPlan, WrongPlansAreRefuted) {
  const Program program = scan_program(4);
  for (const SpmdProgram& right : plans_of(program)) {
    const auto expect_refuted = [&](const SpmdProgram& wrong, const std::string& why) {
      const Verification found = verify(program, wrong);
      EXPECT_EQ(found.verdict, Verdict::refuted) << why << ": " << found.summary;
      EXPECT_THAT(found.summary, HasSubstr(why));
    };
    ASSERT_EQ(verify(program, right).verdict, Verdict::proved);

    SpmdProgram wrong = right;  // hands on nothing
    wrong.carried.pop_back();
    expect_refuted(wrong, "takes over 0 values at the end of a turn");

    wrong = right;  // hands on another tensor of the turn
    const NodeId carry = wrong.carried[0].first;
    for (const Instruction& i : right.instructions) {
      const Node& node = program[right.values[i.result].node];
      if (node.loop != program[carry].loop || node.type != program[carry].type || stacked_dim(node.space) >= 0)
        continue;
      if (i.opcode != Opcode::compute || program.next_of(node.id) >= 0) continue;
      if (node.id != program.next_of(carry)) wrong.carried[0].second = i.result;
    }
    ASSERT_NE(wrong.carried[0].second, right.carried[0].second);
    expect_refuted(wrong, "from turn to turn");

    wrong = right;  // a carry takes over a carry: they all change at once
    const int begins = instruction_of(program, right, [&](const Node& n) { return n.id == carry; });
    wrong.carried[0].second = right.instructions[size_t(begins)].result;
    expect_refuted(wrong, "which no turn makes");

    wrong = right;  // an instruction of the loop in front of it
    int front = begins;
    while (front > 0 && loop_of(program, right, right.instructions[size_t(front) - 1]) >= 0) --front;
    ASSERT_GT(front, 0);
    std::swap(wrong.instructions[size_t(front) - 1], wrong.instructions[size_t(front)]);
    EXPECT_EQ(verify(program, wrong).verdict, Verdict::refuted);
  }
}

TEST(ScanPlan, ACarryKeepsItsPlacement) {
  const Program program = scan_program(4);
  const SpmdProgram right = data_parallel_plan(program, three, RatioRule::proportional).program;
  // The state is cut over the samples from turn to turn: a whole one at the beginning is no invariant.
  SpmdProgram wrong = right;
  const NodeId carry = right.carried[0].first;
  const int begins = instruction_of(program, right, [&](const Node& n) { return n.id == carry; });
  Instruction& first = wrong.instructions[size_t(begins)];
  ASSERT_EQ(right.values[first.result].placements[0].kind, Placement::Kind::sharded);
  first.splits[0] = {};
  wrong.values[first.result].placements[0] = Placement::replicated();
  const Verification found = verify(program, wrong);
  EXPECT_EQ(found.verdict, Verdict::refuted) << found.summary;
}

// Host programs of cuda devices have no loops; what the runtime reads and writes is named as in the program with loops.
TEST(ScanPlan, TurnsAreUnrolledOnCudaDevices) {
  const Program program = scan_program(4);
  Cluster cluster = unequal_cluster({1e9});
  cluster.devices[0].kind = DeviceKind::cuda;
  cluster.devices[0].architecture = "sm_80";
  const SpmdProgram plan = single_device_plan(program, cluster).program;
  const DeviceProgram device = generate(program, plan, cluster, 0);
  EXPECT_THAT(device.files[0].text, ::testing::Not(HasSubstr("long turn")));
  std::vector<NodeId> leaves;
  for (const Slot& slot : device.leaves) {
    EXPECT_TRUE(program[slot.node].leaf());
    EXPECT_EQ(plan.values[slot.value].node, slot.node);
    leaves.push_back(slot.node);
  }
  EXPECT_EQ(leaves.size(), plan.leaves.size());
  EXPECT_EQ(device.loss.node, program.loss);
  RankSource source = rank_source(device);
  const SourceCheck found = check_source(program, plan, source, source_options());
  EXPECT_EQ(found.verdict, Verdict::proved) << found.summary;
}

/// One instruction cut by the bounds, along one factor; what it gives is made whole again behind it. `slices`: of
/// operands that the factor cuts, parts are taken first.
SpmdProgram cut_one(const Program& program, SpmdProgram plan, size_t number, int factor,
                    const std::vector<int64_t>& bounds, bool slices) {
  plan.mesh.axes[0].size = int(bounds.size()) - 1;
  plan.tables.push_back({"cut", 0, bounds.back(), bounds});
  const int table = int(plan.tables.size()) - 1;
  Instruction& i = plan.instructions[number];
  const Node& node = program[i.node];
  i.splits[0] = {factor, table};
  const auto cut = cut_of(node.space, node.space.output, node.type.shape, factor);
  Instruction whole;
  whole.opcode = cut ? Opcode::all_gather : Opcode::all_reduce;
  whole.axis = 0;
  if (cut) whole.dim = cut->dim, whole.table = table;
  if (!cut && node.space.reduction() == FactorKind::max) whole.reduce = ReduceOp::max;
  whole.result = i.result;
  i.result = ValueId(plan.values.size());
  whole.operands = {i.result};
  Value part = plan.values[size_t(whole.result)];
  part.name += " in parts";
  part.placements[0] = cut ? Placement::sharded(cut->dim, table) : Placement::partial(whole.reduce);
  plan.values.push_back(part);
  std::vector<Instruction> before;
  for (size_t j = 0; slices && j < i.operands.size(); ++j) {
    const Node& input = program[node.inputs[j]];
    const auto cut_there = cut_of(node.space, node.space.inputs[j], input.type.shape, factor);
    if (!cut_there || plan.values[size_t(i.operands[j])].placements[0].kind != Placement::Kind::replicated) continue;
    Instruction slice;
    slice.opcode = Opcode::slice;
    slice.axis = 0, slice.dim = cut_there->dim, slice.table = table;
    slice.operands = {i.operands[j]};
    slice.result = i.operands[j] = ValueId(plan.values.size());
    plan.values.push_back({input.name + " sliced", input.id, {Placement::sharded(cut_there->dim, table)}});
    before.push_back(slice);
  }
  plan.instructions.insert(plan.instructions.begin() + long(number) + 1, whole);
  plan.instructions.insert(plan.instructions.begin() + long(number), before.begin(), before.end());
  return plan;
}

Program running_sum() {
  Trace trace("sum.cpp");
  run_builder(trace, [&] {
    Tensor x = parameter("x", {2, 3, 2}, normal(1));
    ScanResult r = scan(x, {full({2, 2}, 0)}, [&](const std::vector<Tensor>& state, Tensor now) {
      Tensor h = state[0] + now;
      return ScanStep{{h}, h};
    });
    minimize(sum(r.outputs * r.outputs) + sum(r.state[0]), SGD{.learning_rate = 0.1});
  });
  return differentiate(trace);
}

/// Every instruction in turn is cut such that some device holds nothing of it: what is carried, and what a turn adds.
TEST(ScanPlan, IsFollowedWhereADeviceHoldsNothing) {
  int cuts = 0;
  for (const Program& program : {running_sum(), scan_program(3)}) {
    const Cluster one = unequal_cluster({1e9}), two = unequal_cluster({1e9, 1e9});
    const SpmdProgram plan = single_device_plan(program, one).program;
    for (size_t n = 0; n < plan.instructions.size(); ++n) {
      const Node& node = program[plan.instructions[n].node];
      for (int f = 0; f < int(node.space.factors.size()); ++f) {
        const Factor& factor = node.space.factors[size_t(f)];
        if (factor.kind == FactorKind::whole || (node.loop < 0 && program.nodes.size() > 40)) continue;
        for (const auto& [lo, slices] : {std::pair(factor.size, false), {factor.size, true}, {0, true}}) {
          if (program.nodes.size() > 40 && (lo + int64_t(n) + f) % 3 != 0) continue;  // some of many
          const SpmdProgram parts = cut_one(program, plan, n, f, {0, lo, factor.size}, slices);
          if (verify(program, parts).verdict != Verdict::proved) continue;
          const Generated g = generated(program, parts, two);
          for (int rank = 0; rank < 2; ++rank) {
            const SourceCheck found = check(g, rank);
            EXPECT_EQ(found.verdict, Verdict::proved)
                << g.devices[size_t(rank)].files.front().text << node.name << " cut along " << factor.name << ", rank "
                << rank << " line " << found.line << ": " << found.summary;
          }
          ++cuts;
        }
      }
    }
  }
  EXPECT_GT(cuts, 30);
}

/// Whole plans in which one device holds nothing.
TEST(ScanPlan, IsFollowedWhereADeviceIsLeftWithNothing) {
  for (const Program& program : {running_sum(), scan_program(3)})
    for (const std::vector<double>& ratio : {std::vector<double>{1, 0}, {0, 1}}) {
      const Cluster two = unequal_cluster({1e9, 1e9});
      SynthesisOptions options;
      options.pins.ratio = ratio;
      options.pins.mesh = {2};
      const SpmdProgram found = synthesize(program, two, options).program;
      const Cluster uneven = unequal_cluster({ratio[0] * 1e12 + 1, ratio[1] * 1e12 + 1});
      const SpmdProgram parallel = data_parallel_plan(program, uneven, RatioRule::proportional).program;
      for (const SpmdProgram& plan : {found, parallel}) {
        const Verification proof = verify(program, plan);
        EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
        const Generated g = generated(program, plan, two);
        for (int rank = 0; rank < 2; ++rank) {
          const SourceCheck found = check(g, rank);
          EXPECT_EQ(found.verdict, Verdict::proved)
              << "rank " << rank << " line " << found.line << ": " << found.summary << text(plan, program)
              << g.devices[size_t(rank)].files.front().text;
        }
      }
    }
}

/// Bodies of operators whose branches agree where numbers are positive, and that keep what they were given: several of
/// their values are the same wherever they are looked at, and the right one is the one that the loop hands on.
Tensor random_branches(Tensor q, const Tensor& state, const Tensor& now, const Tensor& u, int count) {
  for (int i = 0; i < count; ++i) switch (*rc::gen::inRange(0, 10)) {
      case 0:
        q = leaky_relu(q, 0.1);
        break;
      case 1:
        q = abs(q);
        break;
      case 2:
        q = relu(q) - 0.1;
        break;
      case 3:
        q = matmul(q, u);
        break;
      case 4:
        q = clamp(q, -0.5, 0.8);
        break;
      case 5:
        q = where(now > 0.0, q, 0.5 * q);
        break;
      case 6:
        q = maximum(q, state);
        break;
      case 7:
        q = minimum(q, 0.3) + now;
        break;
      case 8:
        q = q * (q > 0.1);
        break;
      default:
        q = tanh(q);
    }
  return q;
}

template <class Body>
void expect_body_followed(int64_t turns, const Body& body) {
  Trace trace("scan_test.cpp");
  run_builder(trace, [&] {
    const Tensor u = parameter("u", {4, 4}, zeros());
    const auto outputs = scan(parameter("x", {4, turns, 4}, zeros()), {full({4, 4}, 0.1)},
                              [&](const std::vector<Tensor>& state, Tensor now) {
                                const Tensor next = body(state[0] + now, state[0], now, u);
                                return ScanStep{{next}, next};
                              })
                             .outputs;
    minimize(mean(square(outputs)), SGD{.learning_rate = 0.1});
  });
  const Program program = differentiate(trace);
  const Cluster one = unequal_cluster({1e9});
  const Generated g = generated(program, single_device_plan(program, one).program, one);
  const SourceCheck found = check(g, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << "line " << found.line << ": " << found.summary << "\n"
                                            << g.devices[0].files.front().text;
}

RC_GTEST_PROP(ScanBody, OfBranchesIsFollowed, ()) {
  const int count = *rc::gen::inRange(1, 5);
  expect_body_followed(*rc::gen::inRange(1, 9), [&](Tensor q, const Tensor& state, const Tensor& now, const Tensor& u) {
    return random_branches(q, state, now, u, count);
  });
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// As it was found: what a turn hands on lay further behind in the body than the check looked.
TEST(ScanBody, OfManyOperatorsIsFollowed) {
  expect_body_followed(6, [](Tensor q, const Tensor&, const Tensor&, const Tensor&) {
    for (int i = 0; i < 25; ++i) q = q + 0.05 * tanh(q);
    return q;
  });
  expect_body_followed(3, [](Tensor q, const Tensor&, const Tensor&, const Tensor&) {
    for (int i = 0; i < 100; ++i) q = tanh(q) * 1.01;
    return q;
  });
}

}  // namespace
}  // namespace hetsynth::test
