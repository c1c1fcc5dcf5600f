// Which operators share a loop nest, what is stored, where it lies: on the attention and optimizer of the GPT, and on
// random programs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "codegen/passes/lower.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "models.h"
#include "random_program.h"

namespace hetsynth::test {
namespace {

using codegen::Group;
using codegen::Lowered;
using codegen::Role;
using ::testing::_;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

/// Tags of the operators of each group of loops.
std::vector<std::vector<std::string>> loop_groups(const Lowered& lowered) {
  std::vector<std::vector<std::string>> out;
  for (const Group& group : lowered.groups) {
    if (group.kind != Group::Kind::loops) continue;
    out.emplace_back();
    for (const auto& member : group.members)
      out.back().push_back(std::string((*lowered.reference)[lowered.op(member).node].tag()));
  }
  return out;
}

TEST(Fusion, MaskedSoftmaxIsOneNestAndStoresItsResultAlone) {
  Program p = traced([] {
    Tensor scores = parameter("scores", {2, 3, 5, 5}, zeros());
    output("weights", softmax(causal_mask(scores * 0.5), -1));
  });
  SpmdProgram s = whole_program(p);
  Lowered lowered = codegen::lower(p, s, 0);
  ASSERT_EQ(lowered.groups.size(), 1u) << testing::PrintToString(loop_groups(lowered));
  int stored = 0;
  for (const auto& member : lowered.groups[0].members) stored += member.stored;
  EXPECT_EQ(stored, 1);
  EXPECT_EQ(lowered.groups[0].passes, 3) << "maximum, exponentials, quotient";
}

TEST(Fusion, LayernormWithItsResidualIsOneNest) {
  Program p = traced([] {
    Tensor x = parameter("x", {4, 6, 8}, zeros()), y = parameter("y", {4, 6, 8}, zeros());
    Tensor sum = x + y;
    output("out", layernorm(sum, parameter("gain", {8}, ones()), parameter("bias", {8}, zeros())));
  });
  SpmdProgram s = whole_program(p);
  EXPECT_EQ(codegen::lower(p, s, 0).groups.size(), 1u);
}

TEST(Fusion, TransposesAndReshapesAreWindows) {
  Program p = traced([] {
    Tensor x = parameter("x", {4, 6, 8}, zeros());
    Tensor heads = transpose(reshape(exp(x), {4, 6, 2, 4}), {0, 2, 1, 3});
    Tensor scores = einsum("bhtd,bhsd->bhts", heads, heads);
    Tensor mixed = einsum("bhts,bhsd->bhtd", scores, heads);
    output("out", exp(reshape(transpose(mixed, {0, 2, 1, 3}), {4, 6, 8})));
  });
  SpmdProgram s = whole_program(p);
  Lowered lowered = codegen::lower(p, s, 0);
  EXPECT_EQ(lowered.groups.size(), 4u) << "two exponentials and two products, no copies";
}

/// One that is read both as it is and from its second element on: the nest that makes it has not come there yet.
TEST(Fusion, WhatAWindowReadsIsMadeBefore) {
  Program p = traced([] {
    Tensor x = parameter("x", {6, 5}, zeros()), made = tanh(x);
    output("out", tanh(concat({slice(made, 1, 1, 5), slice(x, 1, 0, 1)}, 1)) + made);
  });
  SpmdProgram s = whole_program(p);
  EXPECT_THAT(loop_groups(codegen::lower(p, s, 0)), ElementsAre(ElementsAre("tanh"), _));
  GeneratedRun run(p, s);
  Bindings leaves{{0, random_array(p[0].type, -1, 1, 1)}};
  run.write(0, leaves[0]);
  ASSERT_TRUE(run.step({1, 0}));
  // Two float32 functions of arguments below 2, each within a few units in the last place.
  EXPECT_THAT(run.read(p.outputs[0].node).values,
              Pointwise(DoubleNear(1e-6), interpret(p, leaves, {1, 0})[p.outputs[0].node].values));
}

TEST(Fusion, OptimizerUpdatesRunInPlace) {
  Program p = mlp_program();
  SpmdProgram s = whole_program(p);
  Lowered lowered = codegen::lower(p, s, 0);
  EXPECT_TRUE(lowered.memory.copies.empty());
  for (const auto& [target, value] : lowered.local.finals)
    EXPECT_EQ(lowered.memory.offset_bytes[value], lowered.memory.offset_bytes[target]) << p[target].name;
}

TEST(Fusion, RepeatedLayersShareTheirKernels) {
  auto kernels = [](const char* layers) {
    Program p = gpt_program({{"layers", layers}, {"heads", "2"}, {"width", "12"}, {"batch", "5"}, {"seq", "6"}});
    std::string text = generate(p, whole_program(p), cpu_cluster(1), 0).files[0].text;
    size_t count = 0;
    for (size_t at = text.find(" static void compute_"); at != std::string::npos;
         at = text.find(" static void compute_", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(kernels("3"), kernels("5"));
}

/// Buffers that are alive at the same time must not overlap.
TEST(Memory, LivingBuffersDoNotOverlap) {
  Program p = gpt_program();
  SpmdProgram s = whole_program(p);
  Lowered lowered = codegen::lower(p, s, 0);
  struct Life {
    int first = 1 << 30, last = -1;
  };
  std::map<ValueId, Life> lives;
  auto touch = [&](ValueId value, int at) {
    Life& life = lives[lowered.layouts.of[value].buffer];
    life.first = std::min(life.first, at);
    life.last = std::max(life.last, at);
  };
  int end = int(lowered.groups.size());
  for (ValueId leaf : lowered.local.leaves) touch(leaf, -1), touch(leaf, end);
  for (int g = 0; g < end; ++g)
    for (const auto& member : lowered.groups[g].members) {
      const codegen::LocalOp& op = lowered.op(member);
      bool in_blocks = lowered.groups[g].kind == Group::Kind::attention;
      if (member.stored || (lowered.groups[g].kind != Group::Kind::loops && !in_blocks)) touch(op.result, g);
      for (size_t j = 0; j < op.inputs.size(); ++j)
        if (member.source.empty() || member.source[j] < 0) touch(op.inputs[j].value, g);
    }
  auto bytes = [&](ValueId v) { return lowered.local.values[v].count() * 4; };
  int64_t total = 0;
  for (const auto& [a, life_a] : lives) {
    total += bytes(a);
    int64_t begin_a = lowered.memory.offset_bytes[a];
    ASSERT_GE(begin_a, 0);
    EXPECT_LE(begin_a + bytes(a), lowered.memory.arena_bytes);
    for (const auto& [b, life_b] : lives) {
      if (a >= b || life_a.last < life_b.first || life_b.last < life_a.first) continue;
      int64_t begin_b = lowered.memory.offset_bytes[b];
      EXPECT_TRUE(begin_a + bytes(a) <= begin_b || begin_b + bytes(b) <= begin_a)
          << lowered.names[a] << " and " << lowered.names[b];
    }
  }
  EXPECT_LT(lowered.memory.arena_bytes, total) << "nothing shares space";
}

RC_GTEST_PROP(Fusion, RandomProgramsComputeWhatTheInterpreterComputes, ()) {
  Program p = random_program();
  RC_PRE(!p.outputs.empty());
  SpmdProgram s = whole_program(p);
  GeneratedRun run(p, s);
  Bindings leaves;
  for (const Node& node : p.nodes)
    if (node.leaf()) run.write(node.id, leaves[node.id] = random_array(node.type, -1, 1, uint64_t(node.id)));
  RC_ASSERT(run.step({1, 0}));
  std::vector<Array> wanted = interpret(p, leaves, {1, 0});
  for (const NamedOutput& out : p.outputs) {
    Array found = run.read(out.node);
    // Up to a dozen operators, each amplifying errors of its operands by their magnitude, over sums of at most 30
    // terms.
    double largest = 1;
    for (const Array& value : wanted)
      for (double v : value.values) largest = std::max(largest, std::abs(v));
    for (size_t i = 0; i < found.values.size(); ++i) {
      double allowed = 1e-5 * largest;
      if (!(std::abs(found.values[i] - wanted[out.node].values[i]) <= allowed))
        RC_FAIL(fmt::format("{} element {}: {} instead of {}\n{}\n{}", out.name, i, found.values[i],
                            wanted[out.node].values[i], text(p), run.device(0).files[0].text));
    }
  }
}

}  // namespace
}  // namespace hetsynth::test
