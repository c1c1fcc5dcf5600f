// Views before and behind everything that a library or a loop may compute: random chains of them, on the cpu and on
// doubles of the CUDA libraries, against the interpreter.
#include "tests/codegen/views.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::test {
namespace {

using testing_support::CudaCluster;

/// A training step whose loss is of what is seen of the operator's result, so that its gradients see views too.
Program training() {
  Trace trace("test.cpp");
  run_builder(trace, [&] {
    const Tensor out = viewed(computed_of_views(*rc::gen::inRange(0, operators_of_views)));
    output("out", out);
    minimize(mean(square(out + 0.5)), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

struct Expected {
  Bindings leaves;
  std::map<NodeId, Array> after;  ///< of parameters, and of the output
};

Expected expected(const Program& program) {
  Expected out;
  for (const Node& node : program.nodes)
    if (node.leaf()) out.leaves[node.id] = random_array(node.type, -1, 1, uint64_t(node.id + 1));
  const std::vector<Array> values = interpret(program, out.leaves, {});
  for (const Update& update : program.updates) out.after[update.target] = values[size_t(update.value)];
  for (const NamedOutput& named : program.outputs) out.after[named.node] = values[size_t(named.node)];
  return out;
}

/// Sums of some hundred terms of about 1, a few one after the other.
template <class Run>
void expect_after(const Program& program, const Expected& expected, const Run& run) {
  for (const auto& [node, wanted] : expected.after) {
    const Array found = run.read(node);
    for (size_t i = 0; i < wanted.values.size(); ++i)
      ASSERT_NEAR(found.values[i], wanted.values[i], 1e-4) << program[node].name << " " << i << "\n" << text(program);
  }
}

void expect_right_on_cpu(const Program& program) {
  const SpmdProgram whole = single_device_plan(program, cpu_cluster(1)).program;
  GeneratedRun run(program, whole);
  const Expected wanted = expected(program);
  for (const auto& [leaf, value] : wanted.leaves) run.write(leaf, value);
  ASSERT_TRUE(run.step({}));
  expect_after(program, wanted, run);
}

void expect_right_on_gpu(const Program& program) {
  const Cluster cluster = testing_support::cuda_cluster({1});
  const SpmdProgram whole = single_device_plan(program, cluster).program;
  CudaCluster run(program, whole, cluster);
  const Expected wanted = expected(program);
  for (const auto& [leaf, value] : wanted.leaves) run.write_leaf(leaf, value);
  run.step(0);
  expect_after(program, wanted, run);
}

RC_GTEST_PROP(Views, AroundEveryLibraryCallAreRightOnCpus, ()) {
  expect_right_on_cpu(training());
  RC_ASSERT(!::testing::Test::HasFailure());
}

RC_GTEST_PROP(Views, AroundEveryLibraryCallAreRightOnGpus, ()) {
  expect_right_on_gpu(training());
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// As they were found: each ended at run time.
TEST(Views, ReversedOperandsOfEveryLibraryCall) {
  const std::vector<std::function<Tensor()>> models = {
      [] {
        Tensor x = parameter("x", {5, 7, 6}, zeros());
        return matmul(flip(x, 1), parameter("w", {6, 8}, zeros()));
      },
      [] {
        return matmul(flip(parameter("x", {5, 6}, zeros()), 1), flip(parameter("w", {6, 8}, zeros()), 0));
      },
      [] {
        return einsum("btc,chd->bthd", flip(parameter("x", {2, 5, 6}, zeros()), 2), parameter("w", {6, 4, 5}, zeros()));
      },
      [] {
        Tensor q = flip(parameter("q", {2, 2, 6, 4}, zeros()), 2);
        return attention(q, flip(parameter("k", {2, 2, 6, 4}, zeros()), 3), q, {.causal = true});
      },
      [] {
        return lstm(flip(parameter("x", {5, 4, 6}, zeros()), 1),
                    {parameter("in", {6, 4, 5}, zeros()), parameter("again", {5, 4, 5}, zeros()),
                     parameter("b", {4, 5}, zeros())});
      },
  };
  for (const auto& model : models) {
    Trace trace("test.cpp");
    run_builder(trace, [&] { minimize(mean(square(model() + 0.5)), SGD{.learning_rate = 0.5, .momentum = 0}); });
    const Program program = differentiate(trace);
    expect_right_on_cpu(program);
    expect_right_on_gpu(program);
  }
}

}  // namespace
}  // namespace hetsynth::test
