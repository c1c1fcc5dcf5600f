// Attention as nests of blocks: what is recognised, that no tensor of scores is stored, and that forward and backward
// are those of the interpreter, for masked, biased, dropped and grouped heads, on whole and uneven shards.
#include "dsl/ir/attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include "codegen/passes/lower.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "models.h"
#include "synth/baselines/baselines.h"
#include "synth/memory/recompute.h"
#include "synth/schedule/attention_runs.h"

namespace hetsynth::test {
namespace {

using codegen::Group;

struct Heads {
  int64_t batch = 2, queries = 5, keys = 5, heads = 2, features = 4;
  bool causal = false, bias = false;
  double dropout = 0;
  int64_t group = 1;  ///< query heads per key head
  bool scores_read = false;
  std::string precision = "f32";  ///< operands of the products
};

void build(const Heads& h) {
  mixed_precision(h.precision);
  Tensor q = parameter("q", {h.batch, h.queries, h.heads, h.group, h.features}, normal(1));
  Tensor k = parameter("k", {h.batch, h.keys, h.heads, h.features}, normal(1));
  Tensor v = parameter("v", {h.batch, h.keys, h.heads, h.features}, normal(1));
  Tensor scores = einsum("btgrd,bsgd->bgrts", q, k) * (1 / std::sqrt(double(h.features)));
  if (h.bias) scores = scores + parameter("bias", {h.heads, 1, h.queries, h.keys}, normal(1));
  if (h.causal) scores = causal_mask(scores);
  Tensor weights = dropout(softmax(scores, -1), h.dropout);
  Tensor mixed = einsum("bgrts,bsgd->btgrd", weights, v);
  Tensor fixed = stop_gradient(parameter("fixed", {h.batch, h.queries, h.heads, h.group, h.features}, normal(1)));
  if (h.scores_read) output("weights", weights);
  minimize(sum(tanh(mixed) * fixed), SGD{.learning_rate = 0.5, .momentum = 0});
}

Program program_of(const Heads& heads) {
  Trace trace("test.cpp");
  run_builder(trace, [&] { build(heads); });
  return differentiate(trace);
}

int attention_groups(const Program& program, const SpmdProgram& spmd, int rank) {
  codegen::Lowered lowered = codegen::lower(program, spmd, rank);
  int count = 0;
  for (const Group& group : lowered.groups) count += group.kind == Group::Kind::attention;
  return count;
}

/// Loss and updated parameters of one step. Sums of at most some hundred products of values around 1 in float32, and
/// gradients that pass three of them: 2e-5 is some hundred roundings.
constexpr double float_tolerance = 2e-5;
/// Blocks round weights to 16 bits before these are divided by their sum, the interpreter behind it: either is off by
/// 2^-9 of itself at most (of fp16 2^-11), and so is the gradient by the scores, which is computed from the result.
/// Sums of weights are 1, values and gradients around 1 to 3.
double tolerance_of(const std::string& precision) { return 6 * (precision == "bf16" ? 0x1p-8 : 0x1p-10); }

void expect_step(const Program& program, const SpmdProgram& spmd, double tolerance = float_tolerance) {
  GeneratedRun run(program, spmd);
  Bindings leaves = initial_values(program, 7);
  for (const auto& [leaf, value] : leaves) run.write(leaf, value);
  EvaluationContext context{7, 3};
  std::vector<Array> wanted = interpret(program, leaves, context);
  ASSERT_TRUE(run.step(context));
  double loss = wanted[program.loss].values[0];
  EXPECT_NEAR(run.loss(), loss, tolerance * (1 + std::abs(loss)));
  for (const Update& update : program.updates) {
    Array found = run.read(update.target);
    const Array& expected = wanted[update.value];
    for (size_t i = 0; i < found.values.size(); ++i)
      ASSERT_NEAR(found.values[i], expected.values[i], tolerance * (1 + std::abs(expected.values[i])))
          << program[update.target].name << " element " << i;
  }
}

TEST(Attention, IsFoundInEveryForm) {
  for (bool causal : {false, true})
    for (double dropout : {0.0, 0.25}) {
      std::vector<Attention> found = find_attention(program_of({.causal = causal, .dropout = dropout}));
      ASSERT_EQ(found.size(), 1u);
      EXPECT_TRUE(found[0].has_gradient());
      EXPECT_EQ(found[0].causal, causal);
      EXPECT_EQ(found[0].after.size(), dropout > 0 ? 1u : 0u);
      EXPECT_EQ(found[0].products.size(), 3u);
    }
}

TEST(Attention, OfOperandsOf16BitsIsFound) {
  for (const auto& [dropout, type] : {std::pair(0.0, DType::bf16), {0.25, DType::bf16}, {0.25, DType::fp16}}) {
    const Program program = program_of({.causal = true, .dropout = dropout, .precision = std::string(name(type))});
    std::vector<Attention> found = find_attention(program);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].has_gradient());
    EXPECT_TRUE(found[0].causal);
    EXPECT_EQ(found[0].after.size(), dropout > 0 ? 2u : 1u) << "the last one rounds";
    std::vector<NodeId> products = found[0].products;
    products.insert(products.end(), {found[0].scores, found[0].mixed, found[0].weights_gradient});
    EXPECT_EQ(products.size(), 6u);
    for (NodeId product : products)
      for (NodeId operand : program[product].inputs) EXPECT_EQ(program[operand].type.dtype, type);
  }
}

TEST(Attention, WhoseWeightsAreReadElsewhereIsNone) {
  EXPECT_TRUE(find_attention(program_of({.scores_read = true})).empty());
}

TEST(Attention, OfTheGptIsOneNestPerLayerAndDirection) {
  Program gpt = gpt_program();
  EXPECT_EQ(find_attention(gpt).size(), 2u);
  EXPECT_EQ(attention_groups(gpt, whole_program(gpt), 0), 4);
}

TEST(Attention, StoresNoScores) {
  Heads heads{.batch = 1, .queries = 512, .keys = 512, .heads = 1, .features = 4, .causal = true};
  Program program = program_of(heads);
  SpmdProgram spmd = whole_program(program);
  EXPECT_LT(codegen::lower(program, spmd, 0).memory.arena_bytes, 512 * 512 * 4 / 4);
  EXPECT_GT(codegen::lower(program, spmd, 0, {.fuse_attention = false}).memory.arena_bytes, 2 * 512 * 512 * 4);
}

TEST(Attention, ComputesWhatTheInterpreterComputes) {
  const Heads cases[] = {
      {},
      {.causal = true},
      {.batch = 1, .queries = 7, .keys = 3, .heads = 1},
      {.dropout = 0.25},
      {.bias = true},
      {.batch = 3, .queries = 70, .keys = 260, .heads = 1, .bias = true, .dropout = 0.1},
      {.causal = true, .dropout = 0.25, .group = 3},
      {.batch = 1, .queries = 150, .keys = 150, .heads = 1, .causal = true},
      {.batch = 1, .queries = 70, .keys = 300, .heads = 1, .dropout = 0.1, .group = 2},
      {.batch = 1, .queries = 300, .keys = 300, .heads = 1, .features = 3, .causal = true, .dropout = 0.1},
  };
  for (const Heads& h : cases) {
    SCOPED_TRACE(fmt::format("batch {} queries {} keys {} heads {} group {} causal {} dropout {} bias {}", h.batch,
                             h.queries, h.keys, h.heads, h.group, h.causal, h.dropout, h.bias));
    Program program = program_of(h);
    SpmdProgram spmd = whole_program(program);
    EXPECT_EQ(attention_groups(program, spmd, 0), 2);
    expect_step(program, spmd);
  }
}

TEST(Attention, OfOperandsOf16BitsComputesWhatTheInterpreterComputes) {
  const Heads cases[] = {
      {.precision = "bf16"},
      {.precision = "fp16"},
      {.causal = true, .dropout = 0.25, .group = 3, .precision = "bf16"},
      {.causal = true, .dropout = 0.25, .group = 3, .precision = "fp16"},
      {.batch = 3, .queries = 70, .keys = 260, .heads = 1, .bias = true, .dropout = 0.1, .precision = "bf16"},
      {.batch = 1, .queries = 300, .keys = 300, .heads = 1, .features = 16, .causal = true, .precision = "bf16"},
      {.batch = 1, .queries = 300, .keys = 300, .heads = 1, .features = 16, .causal = true, .precision = "fp16"},
  };
  for (const Heads& h : cases) {
    SCOPED_TRACE(fmt::format("queries {} keys {} group {} dropout {}", h.queries, h.keys, h.group, h.dropout));
    Program program = program_of(h);
    SpmdProgram spmd = whole_program(program);
    EXPECT_EQ(attention_groups(program, spmd, 0), 2);
    expect_step(program, spmd, tolerance_of(h.precision));
  }
}

/// What indexes no scores.
constexpr int features = 99;

/// The cheapest plan that cuts the scores, and their gradient, in the given dimension, over uneven devices. -1: every
/// device has them whole. `others`: where other operators that read them are cut.
SpmdProgram plan_cut_in(const Program& program, int dim, const std::map<NodeId, int>& others = {}) {
  Cluster cluster = cpu_cluster(3);
  cluster.hosts[0].inside = {10e9, 1e-6};
  for (Device& device : cluster.devices) device.declared = {1e9, 1e10};
  synth::Problem problem(program, cluster);
  synth::Pins pins;
  const Attention attention = find_attention(program).at(0);
  const std::vector<NodeId> hidden = attention.hidden();
  const Shape& shape = program[attention.scores].type.shape;
  auto pin = [&](NodeId id, int cut) {
    const Node& node = program[id];
    std::vector<int> dims = dims_of_factors(node.space, node.space.output, shape);
    for (size_t j = 0; j < node.inputs.size() && !std::count(hidden.begin(), hidden.end(), id); ++j)
      if (std::count(hidden.begin(), hidden.end(), node.inputs[j]))
        dims = dims_of_factors(node.space, node.space.inputs[j], shape);
    const auto& options = problem.rules.options[id];
    for (int o = 0; o < int(options.size()); ++o) {
      const int factor = options[o].factor[0];
      if (cut < 0 ? factor < 0 : factor >= 0 && dims[factor] == (cut == features ? -1 : cut)) pins[id].push_back(o);
    }
  };
  for (NodeId node : hidden) pin(node, dim);
  std::vector<NodeId> readers = attention.products;
  readers.insert(readers.end(), {attention.mixed, attention.maximum, attention.total, attention.dot});
  for (NodeId node : readers) pin(node, others.contains(node) ? others.at(node) : dim);
  const std::vector<std::vector<double>> fractions{{1, 3, 2}};
  synth::Shares shares = synth::common_shares(problem.classes, fractions);
  synth::Conversions conversions(*problem.analysis, problem.cost, shares);
  synth::SearchInput input;
  input.pins = &pins;
  synth::Solution solution = synth::search(problem, conversions, shares, input, {});
  return synth::assemble(problem, conversions, shares, solution.choices, fractions).program;
}

TEST(Attention, RunsOnUnevenShards) {
  struct Case {
    Heads heads;
    int dim;  ///< of the scores [batch, head, group, query, key]
    bool fused;
  };
  const Case cases[] = {{{.batch = 5, .causal = true, .dropout = 0.2}, 0, true},
                        {{.batch = 1, .queries = 40, .keys = 40, .heads = 7, .causal = true}, 1, true},
                        {{.batch = 1, .queries = 9, .keys = 6, .heads = 1, .group = 8}, 2, true},
                        {{.batch = 1, .queries = 210, .keys = 210, .heads = 1, .causal = true}, 3, true},
                        // Softmax over cut keys is put together by all-reduces between its operators.
                        {{.batch = 1, .queries = 6, .keys = 9, .heads = 1, .dropout = 0.2}, 4, false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("scores cut in dimension {}", c.dim));
    Program program = program_of(c.heads);
    SpmdProgram spmd = plan_cut_in(program, c.dim);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(attention_groups(program, spmd, rank), c.fused ? 2 : 0);
    expect_step(program, spmd);
  }
}

/// No part of a nest: sum(weights * their gradient), which is taken of the result and its gradient. Maxima are, and
/// gradients, of which some features may be left to others.
TEST(Attention, OfWhichAPartIsComputedOfSomeRows) {
  const Heads heads{.batch = 5, .queries = 70, .keys = 70, .causal = true};
  const Program program = program_of(heads);
  const Attention attention = find_attention(program).at(0);
  const synth::Problem problem(program, cpu_cluster(3));
  for (const auto& [node, dim, fused] :
       {std::tuple(attention.dot, 0, true), std::tuple(attention.dot, 3, true), std::tuple(attention.maximum, 3, false),
        std::tuple(attention.products[0], 0, false), std::tuple(attention.products[0], features, true)}) {
    SCOPED_TRACE(fmt::format("{} cut in dimension {}", program[node].name, dim));
    const SpmdProgram spmd = plan_cut_in(program, -1, {{node, dim}});
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(attention_groups(program, spmd, rank), fused ? 2 : 0);
    EXPECT_EQ(synth::AttentionRuns(problem.cost, spmd).found().size(), fused ? 1u : 0u);
    expect_step(program, spmd);
  }
}

/// Queries, keys and values are computed, so that a plan can make them again.
Program projected(bool causal, double dropout) {
  Trace trace("test.cpp");
  run_builder(trace, [&] {
    const int64_t batch = 5, positions = 70, heads = 2, features = 4, width = 3;
    Tensor x = parameter("x", {batch, positions, width}, normal(1));
    const auto projection = [&](const std::string& name) {
      return tanh(einsum("btw,whd->bthd", x, parameter(name, {width, heads, features}, normal(1))));
    };
    Tensor scores = einsum("bthd,bshd->bhts", projection("q"), projection("k")) * 0.5;
    if (causal) scores = causal_mask(scores);
    Tensor mixed = einsum("bhts,bshd->bthd", hetsynth::dropout(softmax(scores, -1), dropout), projection("v"));
    Tensor out = einsum("bthd,hdw->btw", mixed, parameter("o", {heads, features, width}, normal(1)));
    minimize(mean(square(out - 1)), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

struct Projected {
  explicit Projected(bool causal = true, double dropout = 0) : program(projected(causal, dropout)) {
    cluster = cpu_cluster(3);
    for (Device& device : cluster.devices) device.declared = {1e9, 1e10};
    plan = plan_cut_in(program, 0);
  }
  SpmdProgram with(const std::vector<ValueId>& again) const {
    return synth::with_recomputed(synth::Problem(program, cluster), plan, again);
  }
  /// The value of a node that its operation makes.
  ValueId value_of(NodeId node) const {
    for (const Instruction& instruction : plan.instructions)
      if (instruction.opcode == Opcode::compute && instruction.node == node) return instruction.result;
    return -1;
  }
  /// The result, and what its queries, keys and values are made of.
  std::vector<ValueId> all_of_attention() const {
    std::vector<ValueId> out{value_of(find_attention(program).at(0).mixed)};
    for (const synth::Absence& absence : synth::recompute_order(synth::Problem(program, cluster), plan, 0))
      out.push_back(absence.value);
    return out;
  }
  Program program;
  Cluster cluster;
  SpmdProgram plan;
};

TEST(Attention, IsMadeAgainAsAWhole) {
  for (double dropout : {0.0, 0.25}) {
    const Projected p(true, dropout);
    const SpmdProgram twice = p.with(p.all_of_attention());
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(attention_groups(p.program, twice, rank), 3) << "forward, forward again, backward";
    expect_step(p.program, twice);
  }
}

TEST(Attention, TheGradientReadsQueriesAndKeysThatAreMadeAgain) {
  const Projected p;
  const Attention attention = find_attention(p.program).at(0);
  std::vector<ValueId> again;
  for (NodeId operand : p.program[attention.scores].inputs) again.push_back(p.value_of(operand));
  const SpmdProgram twice = p.with(again);
  const codegen::Lowered lowered = codegen::lower(p.program, twice, 0);
  EXPECT_EQ(attention_groups(p.program, twice, 0), 2);
  for (const Group& group : lowered.groups) {
    if (group.kind != Group::Kind::attention || !group.attention->backward) continue;
    for (const codegen::Member& member : group.members)
      for (const codegen::Operand& operand : lowered.local.ops[size_t(member.op)].inputs)
        EXPECT_FALSE(std::ranges::count(again, operand.value)) << "the first is gone";
  }
  expect_step(p.program, twice);
}

/// Also what planning would not choose: some of the scores again, or a maximum and not its sum.
TEST(Attention, WhateverIsMadeAgainIsRight) {
  const Projected p(true, 0.25);
  std::vector<ValueId> forward;
  for (const Instruction& instruction : p.plan.instructions)
    if (p.program[p.plan.values[size_t(instruction.result)].node].phase == Phase::forward)
      forward.push_back(instruction.result);
  for (unsigned seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<ValueId> again;
    for (ValueId value : forward)
      if (random() % 12 < seed) again.push_back(value);
    expect_step(p.program, p.with(again));
  }
}

/// What planning takes for unstored scores, and where it takes them to be read.
TEST(Attention, IsFoundInAPlanWhereTheGeneratorFindsIt) {
  const Projected p;
  const synth::Problem problem(p.program, p.cluster);
  const Attention attention = find_attention(p.program).at(0);
  const auto found = [&](const SpmdProgram& plan) { return synth::AttentionRuns(problem.cost, plan).found(); };
  const std::vector<synth::AttentionRun> once = found(p.plan);
  ASSERT_EQ(once.size(), 1u);
  EXPECT_EQ(once[0].mixed.size(), 1u);
  std::vector<ValueId> read;
  for (NodeId node : {p.program[attention.scores].inputs[0], p.program[attention.scores].inputs[1], attention.maximum,
                      attention.total, attention.mixed})
    read.push_back(p.value_of(node));
  EXPECT_THAT(once[0].again, ::testing::IsSupersetOf(read));
  EXPECT_LT(once[0].first, once[0].last);
  EXPECT_LT(once[0].mixed[0], once[0].first);

  const std::vector<synth::AttentionRun> twice = found(p.with(p.all_of_attention()));
  ASSERT_EQ(twice.size(), 1u);
  EXPECT_EQ(twice[0].mixed.size(), 2u);
  for (ValueId value : read) EXPECT_FALSE(std::ranges::count(twice[0].again, value)) << "these are made again";

  const SpmdProgram torn = p.with({p.value_of(attention.weights)});
  EXPECT_EQ(found(torn).size(), attention_groups(p.program, torn, 0) > 0 ? 1u : 0u);
  EXPECT_TRUE(found(plan_cut_in(p.program, 3)).empty()) << "keys are cut";
}

/// Kernels keep up to 128 features of a row, and write no sums of scores' gradients: then only the forward pass has
/// one.
TEST(Attention, OnCudaDevicesIsPlannedInBlocksWhereThereAreKernels) {
  Cluster gpus = cpu_cluster(2);
  for (Device& device : gpus.devices) device.kind = DeviceKind::cuda, device.declared = {1e12, 1e11};
  const auto in_blocks = [&](const Heads& heads) {
    const Program program = program_of(heads);
    const synth::Problem problem(program, gpus);
    const Attention attention = find_attention(program).at(0);
    return std::pair(problem.cost.in_blocks(attention.scores), problem.cost.in_blocks(attention.weights_gradient));
  };
  EXPECT_EQ(in_blocks({.causal = true}), std::pair(true, true));
  EXPECT_EQ(in_blocks({.features = 128}), std::pair(true, true));
  EXPECT_EQ(in_blocks({.features = 129}), std::pair(false, false));
  EXPECT_EQ(in_blocks({.bias = true}), std::pair(true, false));
}

TEST(Attention, ARankWithoutASampleAddsNothing) {
  Program program = program_of({.batch = 3, .causal = true});
  SpmdProgram spmd = plan_cut_in(program, 0);
  for (BoundaryTable& table : spmd.tables)
    if (table.extent == 3) table.bounds = {0, 0, 2, 3};
  expect_step(program, spmd);
}

}  // namespace
}  // namespace hetsynth::test
