// Operators that share a kernel: each finds its own elements, whatever the others count by.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::ContainsRegex;

Program traced(const std::function<void()>& builder) {
  Trace trace("test.cpp");
  run_builder(trace, builder);
  for (Node& node : trace.program.nodes)
    if (node.name.empty()) node.name = fmt::format("{}{}", node.tag(), node.id);
  return trace.program;
}

std::string kernels_of(const Program& program) {
  const Cluster cluster = cuda_cluster({1});
  const std::string text = generate(program, single_device_plan(program, cluster).program, cluster, 0).files.at(1).text;
  return text.substr(text.find("// cuda_fusion_test.cpp"));  // without what is common to all
}

/// What differs from the interpreter after a step on one GPU; empty: nothing.
std::string difference(const Program& program) {
  const Cluster cluster = cuda_cluster({1});
  CudaCluster machine(program, single_device_plan(program, cluster).program, cluster);
  Bindings leaves;
  for (const Node& node : program.nodes) {
    if (!node.leaf()) continue;
    leaves[node.id] = random_contents(node, {-1, 1}, uint64_t(node.id));
    machine.write_leaf(node.id, leaves[node.id]);
  }
  machine.step(0);
  const std::vector<Array> wanted = interpret(program, leaves, {});
  // Up to a dozen operators, each amplifying errors of its operands by their magnitude, over sums of at most some
  // 10,000 terms, whose errors mostly cancel.
  double largest = 1;
  for (const Array& value : wanted)
    for (double v : value.values) largest = std::max(largest, std::abs(v));
  for (const NamedOutput& out : program.outputs) {
    const Array found = machine.read(out.node);
    const std::vector<double>& should = wanted[size_t(out.node)].values;
    for (size_t i = 0; i < should.size(); ++i)
      if (!(std::abs(found.values[i] - should[i]) <= 2e-5 * largest))
        return fmt::format("{} element {}: {} instead of {}", out.name, i, found.values[i], should[i]);
  }
  return "";
}

/// Elements of a tensor that a kernel walks by rows and columns of a sum: the two count by unlike steps, one asks for
/// the number of its sample before the other, and neither takes the other's.
TEST(CudaFusion, AnElementAndARowAreNotTakenForEachOther) {
  for (const Shape& shape : {Shape{2, 16, 4}, {3, 10, 4}, {5, 4, 6}, {4, 2, 16}})
    for (const int dim : {0, 1, 2}) {
      const Program p = traced([&] {
        Tensor x = parameter("x", shape, zeros());
        for (int d = 0; d < 3; ++d) {
          Shape one(3, 1);
          one[size_t(d)] = shape[size_t(d)];
          const std::string name = fmt::format("scale{}", d);
          output(fmt::format("y{}", d).c_str(), x * parameter(name, one, zeros()));
        }
        output("z", sum(x, dim));
      });
      EXPECT_THAT(kernels_of(p), ContainsRegex("= mul[^\n]*\n[^\n]*= sum")) << "one kernel";
      EXPECT_EQ(difference(p), "") << text(p) << kernels_of(p);
    }
}

/// A variable for what is looked up has the model's name, which may be that of a dimension.
TEST(CudaFusion, NamesOfTheModelDoNotHideCounters) {
  for (const char* name : {"i0", "i1", "i2"}) {
    Program p = traced([] {
      Tensor x = parameter("x", {6, 5, 4}, zeros());
      Tensor looked_up = pick(x, to_int(2 * parameter("label", {6, 5}, zeros())));
      output("looked_up", looked_up);
      output("y", looked_up * parameter("weights", {6, 1}, zeros()));
    });
    p.nodes[size_t(p.outputs[0].node)].name = name;
    EXPECT_THAT(kernels_of(p), ContainsRegex("= pick[^\n]*\n[^\n]*= mul")) << "one kernel";
    EXPECT_EQ(difference(p), "") << kernels_of(p);
  }
}

/// Elementwise operators, sums and maxima over any dimensions, softmaxes, lookups, rows moved by one and transposes of
/// tensors that broadcast, of sizes for threads, warps and blocks by row, and for chunks.
Program random_program() {
  return traced([] {
    Shape shape;
    for (int d = 0; d < 3; ++d) shape.push_back(*rc::gen::element<int64_t>(1, 2, 3, 4, 5, 6, 8, 10, 16, 24));
    if (*rc::gen::inRange(0, 4) == 0) shape[size_t(*rc::gen::inRange(0, 3))] = 130;
    std::vector<Tensor> pool = {parameter("full", shape, zeros()), parameter("other", shape, zeros())};
    for (int some = 1; some < 7; ++some) {
      Shape part(3, 1);
      for (size_t d = 0; d < 3; ++d)
        if (some >> d & 1) part[d] = shape[d];
      pool.push_back(parameter(fmt::format("part{}", some), part, zeros()));
    }
    const auto any = [&] { return pool[*rc::gen::inRange<size_t>(0, pool.size())]; };
    const int count = *rc::gen::inRange(3, 10);
    for (int i = 0; i < count; ++i) {
      const Tensor x = *rc::gen::inRange(0, 3) ? pool[*rc::gen::inRange<size_t>(0, 2)] : any();
      std::vector<int> over;
      const int some = *rc::gen::inRange(1, 8);
      for (int d = 0; d < 3; ++d)
        if (some >> d & 1) over.push_back(d);
      const bool whole = x.size(0) == shape[0] && x.size(1) == shape[1] && x.size(2) == shape[2];
      switch (*rc::gen::inRange(0, 9)) {
        case 0:
          pool.push_back(x * any());
          break;
        case 1:
          pool.push_back(tanh(x) + any());
          break;
        case 2:
        case 3:
          pool.push_back(sum(x, over, true));
          break;
        case 4:
          pool.push_back(max(x, over, true));
          break;
        case 5:
          pool.push_back(softmax(x, *rc::gen::inRange(0, 3)));
          break;
        case 6:
          if (whole && shape[2] > 1) pool.push_back(concat({slice(x, 2, 1, shape[2]), slice(pool[1], 2, 0, 1)}, 2));
          break;
        case 7:
          if (whole) {
            const Tensor flat = reshape(transpose(x, {1, 0, 2}), {shape[1], shape[0] * shape[2]});
            pool.push_back(transpose(reshape(transpose(flat, {1, 0}), {shape[0], shape[2], shape[1]}), {0, 2, 1}));
          }
          break;
        default:  // by a leaf, whose double is exact: what is rounded may be floored to another number than should be
          if (x.size(0) == shape[0] && x.size(1) == shape[1])
            pool.push_back(
                reshape(pick(x, to_int(2 * reshape(pool[4], {shape[0], shape[1]}))), {shape[0], shape[1], 1}));
          break;
      }
    }
    for (size_t i = 8; i < pool.size(); ++i)
      if (i + 1 == pool.size() || *rc::gen::arbitrary<bool>()) output(fmt::format("out{}", i).c_str(), pool[i]);
  });
}

RC_GTEST_PROP(CudaFusion, RandomProgramsComputeWhatTheInterpreterComputes, ()) {
  const Program p = random_program();
  const std::string found = difference(p);
  if (!found.empty()) RC_FAIL(fmt::format("{}\n{}\n{}", found, text(p), kernels_of(p)));
}

}  // namespace
}  // namespace hetsynth::testing_support
