// Images divided by rows and columns among ranks, with parts of their neighbours where windows slide over them: what
// generated programs compute is what the float64 interpreter does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <regex>

#include "codegen/passes/lower.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/plan_builder.h"
#include "tests/support/window_plan.h"

namespace hetsynth::test {
namespace {

using codegen::Group;
using ::testing::HasSubstr;
using ::testing::Not;

/// y = f(x, w) and the gradients of sum(y * y) by both, every tensor of them an output.
Program with_gradients(const Dims& image, const Dims& weights, const std::function<Tensor(Tensor, Tensor)>& f) {
  Trace trace("test.cpp");
  run_builder(trace, [&] {
    const bool weighed = !weights.empty();
    Tensor x = parameter("x", image, normal(1)), w = weighed ? parameter("w", weights, normal(1)) : x;
    Tensor y = f(x, w);
    output("y", y);
    const std::vector<Tensor> d = gradients(sum(y * y), weighed ? std::vector{x, w} : std::vector{x});
    output("dx", d[0]);
    if (weighed) output("dw", d[1]);
  });
  for (size_t i = 0; i < trace.program.nodes.size(); ++i)
    if (trace.program.nodes[i].name.empty()) trace.program.nodes[i].name = fmt::format("t{}", i);
  return trace.program;
}

Program convolution(const Dims& image, const Dims& weights, const Conv2d& options) {
  return with_gradients(image, weights, [&](Tensor x, Tensor w) { return conv2d(x, w, options); });
}

Program pool(const Dims& image, Extent2d window, const Pool2d& options) {
  return with_gradients(image, {}, [&](Tensor x, Tensor) { return max_pool2d(x, window, options); });
}

/// Every output on every rank. `bound`: of what single-precision sums of these sizes may be off by.
void expect_reference(const Program& p, const SpmdProgram& plan, double bound) {
  GeneratedRun run(p, plan);
  const Bindings leaves = initial_values(p, 3);
  for (const auto& [node, values] : leaves) run.write(node, values);
  ASSERT_TRUE(run.step({}));
  const std::vector<Array> expected = interpret(p, leaves, {});
  for (const NamedOutput& out : p.outputs) {
    const Array found = run.read(out.node);
    for (size_t i = 0; i < found.values.size(); ++i)
      ASSERT_NEAR(found.values[i], expected[size_t(out.node)].values[i], bound) << out.name << " element " << i << "\n"
                                                                                << text(plan, p);
  }
}

struct Case {
  std::string name;
  Program program;
  int exchanges;  ///< at least
};

/// Of 16 x 12 images; what is strided has 8 rows.
std::vector<Case> cases() {
  std::vector<Case> out;
  const Dims image{2, 4, 16, 12};
  // The result, and of stride 1 the gradient by the image, read neighbouring rows; that by the kernel reads the image
  // that the result did.
  out.push_back({"3x3", convolution(image, {6, 4, 3, 3}, {.padding = 1}), 2});
  out.push_back({"3x3 stride 2", convolution(image, {6, 4, 3, 3}, {.stride = 2, .padding = 1}), 1});
  out.push_back({"7x7 stride 2", convolution(image, {6, 4, 7, 7}, {.stride = 2, .padding = 3}), 1});
  out.push_back({"3x3 dilated", convolution(image, {6, 4, 3, 3}, {.padding = 2, .dilation = 2}), 2});
  out.push_back({"5x3 grouped", convolution(image, {6, 2, 5, 3}, {.padding = {2, 1}, .groups = 2}), 2});
  out.push_back({"3x3 of each channel", convolution(image, {4, 1, 3, 3}, {.padding = 1, .groups = 4}), 2});
  out.push_back({"3x3 stride 4", convolution(image, {6, 4, 3, 3}, {.stride = 4, .padding = 1}), 1});
  out.push_back({"max pool 3x3", pool(image, 3, {.stride = 1, .padding = 1}), 3});
  out.push_back({"max pool 3x3 stride 2", pool(image, 3, {.stride = 2, .padding = 1}), 1});
  return out;
}

/// The first row reads one of the rows before it; shares without rows, and shares with fewer rows than windows reach
/// over; all rows on one rank; a single rank.
const std::vector<std::vector<int64_t>> row_bounds{{0, 3, 4}, {0, 1, 1, 2, 4}, {0, 0, 1, 4}, {0, 0, 4}, {0, 4}};

TEST(HaloPlans, OfEveryWindowGiveTheReference) {
  for (const Case& c : cases())
    for (const std::vector<int64_t>& bounds : row_bounds) {
      SCOPED_TRACE(fmt::format("{} by rows {}", c.name, fmt::join(bounds, ",")));
      const SpmdProgram plan = window_plan(c.program, {{"rows", 2, bounds}}, {"x"});
      EXPECT_GE(count_of(plan, Opcode::halo_exchange), c.exchanges) << text(plan, c.program);
      // Sums of at most 2 * 16 * 12 products of sums of 196 normal draws.
      expect_reference(c.program, plan, 1e-2);
      if (HasFatalFailure()) return;
    }
}

/// A rank has corners from ranks that it shares neither rows nor columns with.
TEST(HaloPlans, OfRowsAndColumnsGiveTheReference) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const SpmdProgram plan = window_plan(c.program, {{"rows", 2, {0, 1, 4}}, {"columns", 3, {0, 2, 2, 3}}}, {"x"});
    EXPECT_GE(count_of(plan, Opcode::halo_exchange), c.name.find("stride 4") == std::string::npos ? c.exchanges : 0);
    expect_reference(c.program, plan, 1e-2);
    if (HasFatalFailure()) return;
  }
}

TEST(HaloPlans, OfSamplesAndRowsGiveTheReference) {
  const Program p = convolution({3, 2, 8, 5}, {2, 2, 3, 3}, {.padding = 1});
  for (const std::vector<int64_t>& samples : {std::vector<int64_t>{0, 1, 3}, {0, 0, 3}})
    expect_reference(p, window_plan(p, {{"dp", 0, samples}, {"rows", 2, {0, 1, 1, 4}}}, {"x"}), 1e-3);
}

/// Convolutions of every rank that has rows are calls of the library, of the rows that it holds.
TEST(HaloPlans, ConvolutionsAreCallsOfTheLibrary) {
  for (const Case& c : cases()) {
    if (c.name.find("pool") != std::string::npos || c.name.find("each channel") != std::string::npos) continue;
    const SpmdProgram whole = whole_program(c.program);
    const auto calls = [](const codegen::Lowered& lowered) {
      return std::count_if(lowered.groups.begin(), lowered.groups.end(),
                           [](const Group& g) { return g.kind == Group::Kind::convolution; });
    };
    const auto wanted = calls(codegen::lower(c.program, whole, 0));
    EXPECT_EQ(wanted, 3) << c.name;
    const SpmdProgram plan = window_plan(c.program, {{"rows", 2, {0, 1, 1, 2, 4}}}, {"x"});
    for (int rank : {0, 2, 3}) EXPECT_EQ(calls(codegen::lower(c.program, plan, rank)), wanted) << c.name << " " << rank;
  }
}

/// The same with more of the neighbours' parts in every exchange than windows read.
SpmdProgram widened(SpmdProgram plan, int64_t by) {
  for (Instruction& i : plan.instructions) {
    if (i.opcode != Opcode::halo_exchange) continue;
    Placement& held = plan.values[size_t(i.result)].placements[size_t(i.axis)];
    held.before = i.before += by;
    held.after = i.after += by;
  }
  return plan;
}

std::vector<std::string> convolution_sizes(const std::string& text) {
  std::vector<std::string> out;
  const std::regex tables("long (convolution_\\w+)\\[\\] = (\\{[^}]*\\})");
  for (std::sregex_iterator at(text.begin(), text.end(), tables), end; at != end; ++at)
    if (!(*at)[1].str().ends_with("_strides")) out.push_back((*at)[2]);
  return out;
}

TEST(HaloPlans, OfMoreThanWindowsReadGiveTheReferenceByTheSameCalls) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const SpmdProgram plan = window_plan(c.program, {{"rows", 2, {0, 1, 1, 2, 4}}}, {"x"}), wide = widened(plan, 2);
    expect_reference(c.program, wide, 1e-2);
    if (HasFatalFailure()) return;
    for (int rank : {0, 2, 3}) {
      const auto sizes = [&](const SpmdProgram& of) {
        return convolution_sizes(generate(c.program, of, cpu_cluster(4), rank).files[0].text);
      };
      EXPECT_EQ(sizes(wide), sizes(plan)) << rank;
      const bool all_parts = c.name.starts_with("3x3 stride") || c.name == "3x3";
      if (all_parts) {
        EXPECT_EQ(sizes(plan).size(), 3u) << rank;
      }
    }
  }
}

/// Layers of random windows one behind the other, over random shares.
TEST(HaloPlans, OfRandomLayersGiveTheReference) {
  std::mt19937 random(11);
  const auto below = [&](int n) { return int64_t(random() % unsigned(n)); };
  for (int i = 0; i < 8; ++i) {
    Trace trace("test.cpp");
    run_builder(trace, [&] {
      Tensor x = parameter("x", {2, 2, 16, 7}, normal(1));
      for (int layer = 0; layer < 3; ++layer) {
        const int64_t padding = 1 + below(3), stride = x.size(2) > 4 ? 1 + below(2) : 1;
        const std::string w = fmt::format("w{}", layer);
        switch (below(4)) {
          case 0:
            x = max_pool2d(x, {3, 3}, {.stride = Extent2d{stride, 1}, .padding = 1});
            break;
          case 1:
            x = avg_pool2d(x, {3, 3}, {.stride = Extent2d{1, 1}, .padding = 1});
            break;
          default:
            x = conv2d(x, parameter(w, {2, 2, 2 * padding + 1, 3}, normal(0.3)),
                       {.stride = {stride, 1}, .padding = {padding, 1}});
        }
        // Reads the rows themselves besides, and through a view.
        if (below(2)) x = x + slice(avg_pool2d(x, {3, 3}, {.stride = Extent2d{1, 1}, .padding = 1}), 3, 0, x.size(3));
        x = slice(relu(x + 0.1), 3, 0, x.size(3) - 1);
      }
      minimize(mean(x * x), SGD{.learning_rate = 0.5, .momentum = 0});
    });
    const Program p = differentiate(trace);
    std::vector<int64_t> bounds{0, 4};
    for (int64_t cut = below(4); cut > 0; --cut) bounds.push_back(below(5));
    std::ranges::sort(bounds);
    SCOPED_TRACE(fmt::format("draw {} by rows {}", i, fmt::join(bounds, ",")));
    const SpmdProgram plan = window_plan(p, {{"rows", 2, bounds}}, {"x"});
    EXPECT_GE(count_of(plan, Opcode::halo_exchange), 1);
    GeneratedRun run(p, plan);
    const Bindings leaves = initial_values(p, 5);
    for (const auto& [node, values] : leaves) run.write(node, values);
    ASSERT_TRUE(run.step({}));
    const std::vector<Array> expected = interpret(p, leaves, {});
    const double loss = expected[size_t(p.loss)].values[0];
    EXPECT_NEAR(run.loss(), loss, 1e-5 * (1 + std::abs(loss)));
    for (const Update& update : p.updates) {
      const Array found = run.read(update.target);
      for (size_t e = 0; e < found.values.size(); ++e)
        ASSERT_NEAR(found.values[e], expected[size_t(update.value)].values[e], 1e-4)
            << p[update.target].name << " element " << e << "\n"
            << text(plan, p);
    }
  }
}

/// A leaf that is held with its halo: each rank is given what it holds, and no exchange is needed.
TEST(HaloPlans, LeavesMayBeHeldWithTheirHalo) {
  Trace trace("test.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {1, 2, 8, 5}, normal(1)), w = parameter("w", {3, 2, 3, 3}, normal(1));
    output("x", x);
    output("y", conv2d(x, w, {.padding = 1}));
  });
  Program& p = trace.program;
  for (size_t i = 0; i < p.nodes.size(); ++i)
    if (p.nodes[i].name.empty()) p.nodes[i].name = fmt::format("t{}", i);
  PlanBuilder b(p, {{"rows", 4}});
  const int t = b.table("rows", 0, 8, {0, 3, 3, 4, 8});
  // More than the windows read.
  const ValueId x = b.leaf("x", {Placement::overlapping(2, t, 2, 1)}), w = b.leaf("w");
  const NodeId y = p.outputs.back().node;
  const ValueId result = b.compute(p[y].name, {x, w}, {{"y", t}});
  EXPECT_EQ(b.plan.values[size_t(result)].placements, Placements{Placement::sharded(2, t)});
  expect_reference(p, b.plan, 1e-4);
}

/// An output is read from where no two ranks hold the same, if there is such a value.
TEST(HaloPlans, OutputsAreReadFromPartsThatDoNotOverlap) {
  const Program p = convolution({1, 2, 8, 5}, {2, 2, 3, 3}, {.padding = 1});
  PlanBuilder b(p, {{"rows", 2}});
  const int t = b.table("rows", 0, 8, {0, 3, 8});
  const ValueId x = b.leaf("x", {Placement::sharded(2, t)}), w = b.leaf("w");
  const NodeId y = p.outputs.front().node;
  const ValueId result = b.compute(p[y].name, {b.halo_exchange(x, 0, 1, 1), w}, {{"y", t}});
  const auto read_from = [&] {
    for (const auto& [node, value] : codegen::localize(p, b.plan, 1).outputs)
      if (node == y) return value;
    return -1;
  };
  EXPECT_EQ(read_from(), result);
  b.halo_exchange(result, 0, 1, 0);
  EXPECT_EQ(read_from(), result);
  const ValueId whole = b.all_gather(result, 0);
  EXPECT_EQ(read_from(), whole);
  // Where all that there is overlaps, it is read all the same.
  b.plan.instructions.resize(2);
  Value& only = b.plan.values[size_t(result)];
  only.placements = {Placement::overlapping(2, t, 1, 0)};
  EXPECT_EQ(read_from(), result);
}

TEST(HaloPlans, TheCallSaysWhatLiesAroundTheParts) {
  const Program p = convolution({2, 4, 16, 12}, {6, 4, 7, 7}, {.stride = 2, .padding = 3});
  const SpmdProgram plan = window_plan(p, {{"rows", 2, {0, 1, 4}}}, {"x"});
  const std::string text = generate(p, plan, cpu_cluster(2), 1).files.at(0).text;
  EXPECT_THAT(text, HasSubstr("static const long bounds_rows[] = {0, 4, 16};  // of 16 elements over rows\n"));
  EXPECT_THAT(text, HasSubstr("hetsynth_halo_exchange(context, 0, 0, x, x_with_halo, 8, 12, bounds_rows, 3, 2, 0)"));
  // Three rows of 2 * 4 * 12 floats.
  EXPECT_THAT(text, HasSubstr("halo_exchange x over rows, 1.1 KiB received"));
  EXPECT_THAT(text, HasSubstr("extern \"C\" int hetsynth_halo_exchange(HetsynthContext*, int id, int axis,"));
}

}  // namespace
}  // namespace hetsynth::test
