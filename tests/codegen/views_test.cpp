// Views (reversed, repeated, transposed, cut, windows that overlap) before everything that a library may compute:
// random chains of them, on the cpu and on doubles of the CUDA libraries, against the interpreter.
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

/// A tensor of this shape, seen through one to four views.
Tensor seen(const Dims& shape, const std::string& name) {
  // Backwards from the shape to that of the parameter: each view is undone before it is applied.
  std::vector<std::function<Tensor(Tensor)>> views;
  Dims before = shape;
  const int count = *rc::gen::inRange(1, 5);
  for (int i = 0; i < count; ++i) {
    const int rank = int(before.size()), dim = *rc::gen::inRange(0, rank), other = *rc::gen::inRange(0, rank);
    const int64_t extent = before[size_t(dim)];
    const Dims after = before;
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
        views.push_back([=](Tensor x) { return flip(x, dim); });
        break;
      case 1: {
        std::vector<int> order;
        for (int d = 0; d < rank; ++d) order.push_back(d == dim ? other : d == other ? dim : d);
        std::swap(before[size_t(dim)], before[size_t(other)]);
        views.push_back([=](Tensor x) { return transpose(x, order); });
        break;
      }
      case 2: {
        const int64_t start = *rc::gen::inRange<int64_t>(0, 3);
        before[size_t(dim)] = extent + start + 1;
        views.push_back([=](Tensor x) { return slice(x, dim, start, start + extent); });
        break;
      }
      case 3:
        before[size_t(dim)] = 1;
        views.push_back([=](Tensor x) { return broadcast(x, after); });
        break;
      default:
        if (dim + 1 >= rank) break;
        before[size_t(dim)] *= before[size_t(dim) + 1];
        before.erase(before.begin() + dim + 1);
        views.push_back([=](Tensor x) { return reshape(x, after); });
    }
  }
  Tensor x = parameter(name, before, zeros());
  for (size_t i = views.size(); i-- > 0;) x = views[i](x);
  return x;
}

/// One operator that a library computes, of tensors seen through views.
Tensor computed(int which) {
  switch (which) {
    case 0:
      return matmul(seen({5, 6}, "x"), seen({6, 7}, "w"));
    case 1:
      return matmul(seen({3, 5, 6}, "x"), seen({3, 6, 7}, "w"));
    case 2:
      return matmul(seen({3, 5, 6}, "x"), seen({6, 7}, "w"));
    case 3:
      return einsum("btc,chd->bthd", seen({2, 5, 6}, "x"), seen({6, 4, 5}, "w"));
    case 4:
      return einsum("abc,adc->bd", seen({2, 5, 6}, "x"), seen({2, 7, 6}, "w"));
    case 5:
      return attention(seen({2, 2, 6, 4}, "q"), seen({2, 2, 6, 4}, "k"), seen({2, 2, 6, 4}, "v"));
    case 6:
      return conv2d(seen({2, 3, 6, 7}, "x"), seen({4, 3, 3, 3}, "w"), {.padding = 1});
    case 7: {
      const Tensor w = seen({6, 6}, "w");
      return scan(seen({5, 4, 6}, "x"), {parameter("start", {5, 6}, zeros())},
                  [&](const std::vector<Tensor>& state, Tensor x) {
                    const Tensor next = tanh(matmul(x, w) + state[0]);
                    return ScanStep{{next}, next};
                  })
          .outputs;
    }
    case 8:
      return lstm(seen({5, 4, 6}, "x"), {seen({6, 4, 5}, "in"), seen({5, 4, 5}, "again"), seen({4, 5}, "bias")});
    default:
      return gru(flip(parameter("x", {5, 4, 6}, zeros()), 1),
                 {seen({6, 3, 5}, "in"), seen({5, 3, 5}, "again"), seen({3, 5}, "bias"), seen({5}, "candidate")});
  }
}

constexpr int operators = 10;

/// A training step whose loss is of the operator's result, so that products of its gradients see views too.
Program training(int which) {
  Trace trace("test.cpp");
  run_builder(trace, [&] {
    const Tensor out = computed(which);
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

RC_GTEST_PROP(Views, BeforeEveryLibraryCallAreRightOnCpus, ()) {
  expect_right_on_cpu(training(*rc::gen::inRange(0, operators)));
  RC_ASSERT(!::testing::Test::HasFailure());
}

RC_GTEST_PROP(Views, BeforeEveryLibraryCallAreRightOnGpus, ()) {
  expect_right_on_gpu(training(*rc::gen::inRange(0, operators)));
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
