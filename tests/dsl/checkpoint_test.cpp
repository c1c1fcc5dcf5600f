// Activation checkpointing: the same gradients, from values that are computed a second time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "dsl/ir/interpreter.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth {
namespace {

void layered_model(bool again, bool nested = false) {
  Tensor x = parameter("x", {4, 6}, normal(1));
  for (int layer = 0; layer < 2; ++layer) {
    const std::string number = std::to_string(layer);
    Tensor w = parameter("w" + number, {6, 6}, normal(0.4));
    auto inner = [&] {
      Tensor gain = parameter("gain" + number, {6}, ones()), bias = parameter("bias" + number, {6}, zeros());
      return gelu(matmul(layernorm(x, gain, bias), w));
    };
    auto block = [&] { return x + dropout(nested ? checkpoint(inner) : inner(), 0.25); };
    x = again ? checkpoint(block) : block();
  }
  minimize(sum(x * x), SGD{.learning_rate = 0.1, .momentum = 0});
}

Program program_of(bool again, bool nested = false) {
  Trace trace("model.cpp");
  run_builder(trace, [&] { layered_model(again, nested); });
  return differentiate(trace);
}

TEST(Checkpoint, GivesTheSameStep) {
  Program kept = program_of(false), again = program_of(true);
  std::vector<Array> wanted = interpret(kept, initial_values(kept, 3), {9, 4});
  std::vector<Array> found = interpret(again, initial_values(again, 3), {9, 4});
  EXPECT_EQ(found[again.loss].values, wanted[kept.loss].values);
  ASSERT_EQ(again.updates.size(), kept.updates.size());
  for (size_t u = 0; u < kept.updates.size(); ++u)
    EXPECT_EQ(found[again.updates[u].value].values, wanted[kept.updates[u].value].values);
}

/// Forward tensors that the backward pass reads, counted by elements.
int64_t saved(const Program& program) {
  int64_t elements = 0;
  auto consumers = program.consumers();
  for (const Node& node : program.nodes) {
    if (node.leaf() || node.phase != Phase::forward) continue;
    if (std::any_of(consumers[node.id].begin(), consumers[node.id].end(),
                    [&](NodeId c) { return program[c].phase != Phase::forward && program[c].recomputation == 0; }))
      elements += element_count(node.type.shape);
  }
  return elements;
}

TEST(Checkpoint, KeepsOnlyWhatGoesIn) {
  Program kept = program_of(false), again = program_of(true);
  EXPECT_GT(saved(kept), 3 * 2 * 4 * 6);
  // What goes into the second block, and its result, which the loss reads. What goes into the first is a parameter.
  EXPECT_EQ(saved(again), 2 * 4 * 6) << text(again);
}

TEST(Checkpoint, IsNotMergedWithTheFirstComputation) {
  Program program = program_of(true);
  int made_again = 0;
  for (const Node& node : program.nodes) made_again += node.recomputation > 0;
  EXPECT_GT(made_again, 10);
  EXPECT_EQ(hash_text(simplify(program)), hash_text(program));
}

TEST(Checkpoint, InsideOfAnotherDoesNothing) {
  EXPECT_EQ(hash_text(program_of(true, true)), hash_text(program_of(true, false)));
}

}  // namespace
}  // namespace hetsynth
