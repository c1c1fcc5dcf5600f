#include "tests/support/halo_plan.h"

#include <algorithm>
#include <functional>
#include <source_location>
#include <utility>

#include "dsl/ir/differentiate.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/plan_builder.h"
#include "tests/support/window_plan.h"

namespace hetsynth::test {
namespace {

Program traced(const std::function<Tensor()>& loss) {
  Trace trace("rows.cpp");
  run_builder(trace, [&] { minimize(loss(), SGD{.learning_rate = 0.1, .momentum = 0}); });
  return differentiate(trace);
}

Tensor images(const Dims& shape) {
  return Trace::current().add_leaf(NodeKind::input, "x", {shape, DType::f32}, std::source_location::current());
}

Tensor weight(const std::string& name, Dims shape) { return parameter(name, std::move(shape), normal(0.5)); }

/// Two convolutions of square windows, between them `between`.
Program two_convolutions(Dims image, int64_t window, Conv2d second, const std::function<Tensor(Tensor)>& between) {
  return traced([&] {
    Tensor x = images(image);
    Tensor y = conv2d(x, weight("w", {2, image[1], window, window}), {.padding = window / 2});
    output("y", y);
    Tensor z = conv2d(between(y), weight("v", {3, 2, window, window}), second);
    output("z", z);
    return mean(z * z);
  });
}

/// The tensor as every device has it.
ValueId value_of(const SpmdProgram& plan, NodeId node) {
  ValueId out = -1;
  for (size_t v = 0; v < plan.values.size(); ++v)
    if (plan.values[v].node == node && plan.values[v].placements[0] == Placement::replicated()) out = ValueId(v);
  return out;
}

/// An image that all have whole: parts of it are cut out and exchanged, for what that is worth.
HaloCase exchange_of_slices(int64_t batch) {
  HaloCase out{"slices_of_" + std::to_string(batch),
               traced([&] {
                 Tensor w = weight("w", {1, 1, 3, 3});
                 Tensor y = conv2d(weight("x", {batch, 1, 8, 6}), w, {.padding = 1});
                 output("y", y);
                 return mean(y * y);
               }),
               {}};
  PlanBuilder b(out.reference, {{"sp", 3}});
  b.table("rows", 0, 8, {0, 1, 5, 8});
  for (const Node& node : out.reference.nodes) {
    if (node.leaf()) {
      b.leaf(node.id, {});
      continue;
    }
    const bool convolves = node.tag() == "conv2d";
    std::vector<ValueId> operands;
    for (NodeId input : node.inputs) operands.push_back(value_of(b.plan, input));
    if (convolves) operands[0] = b.halo_exchange(b.slice(operands[0], 0, 2, 0), 0, 1, 1);
    int rows = -1;
    for (size_t f = 0; convolves && f < node.space.factors.size(); ++f)
      if (node.space.factors[f].name == "y") rows = int(f);
    const ValueId made = b.compute(node.id, operands, {Split{rows, rows < 0 ? -1 : 0}});
    if (convolves) b.all_gather(made, 0);
  }
  b.plan.loss = value_of(b.plan, out.reference.loss);
  for (const Update& update : out.reference.updates)
    b.plan.finals.push_back({update.target, value_of(b.plan, update.value)});
  out.plan = b.plan;
  return out;
}

/// The input comes with its halo: nothing is exchanged before it is read.
HaloCase leaf_with_its_halo() {
  HaloCase out{"leaf_with_its_halo", convolution_of_rows(2, 3), {}};
  out.plan = divided_by_rows(out.reference, {0, 3, 3, 4, 8});
  const auto halo = std::ranges::find(out.plan.instructions, Opcode::halo_exchange, &Instruction::opcode);
  std::ranges::replace(out.plan.leaves, halo->operands[0], halo->result);
  out.plan.instructions.erase(halo);
  return out;
}

}  // namespace

SpmdProgram divided_by_rows(const Program& reference, std::vector<int64_t> bounds) {
  return window_plan(reference, {{"sp", 2, std::move(bounds)}}, {"x"});
}

Program convolution_of_rows(int64_t batch, int64_t channels) {
  return traced([&] {
    Tensor x = images({batch, channels, 8, 6});
    Tensor y = conv2d(x, weight("w", {channels, channels, 3, 3}), {.padding = 1});
    output("y", y);
    return mean(y * y);
  });
}

Program network_of_one_image() {
  return traced([&] {
    const auto convolve = [](const char* name, Tensor x, int64_t size) {
      return relu(conv2d(x, weight(name, {4, x.size(1), size, size}), {.padding = size / 2}));
    };
    Tensor x = convolve("w", images({1, 3, 16, 16}), 5);
    x = max_pool2d(convolve("v", x, 3), 2, {.stride = 2});
    x = convolve("u", x, 3);
    output("z", x);
    Tensor y = matmul(mean(x, {2, 3}), weight("head", {4, 4}));
    return mean(y * y);
  });
}

std::vector<HaloCase> halo_cases() {
  const auto rectified = [](Tensor t) { return relu(t); };
  const auto maxima = [](Tensor t) { return max_pool2d(t, 3, {.stride = 1, .padding = 1}); };
  const auto halved = [](Tensor t) { return max_pool2d(t, 3, {.stride = 2, .padding = 1}); };
  const auto means = [](Tensor t) { return avg_pool2d(t, 3, {.stride = 1, .padding = 1}); };
  const Program three = two_convolutions({2, 3, 8, 6}, 3, {.padding = 1}, rectified);
  const Program five = two_convolutions({2, 1, 8, 5}, 5, {.padding = 2}, rectified);
  std::vector<HaloCase> out;
  const auto by = [&](const char* name, const Program& reference, const std::vector<CutAxis>& axes) {
    out.push_back({name, reference, window_plan(reference, axes, {"x"})});
  };
  const auto by_rows = [&](const char* name, const Program& reference, const std::vector<int64_t>& bounds) {
    by(name, reference, {{"sp", 2, bounds}});
  };
  by_rows("two_uneven", three, {0, 3, 8});
  by_rows("three_with_an_empty_share", three, {0, 5, 5, 8});
  by_rows("one_has_all", three, {0, 0, 8, 8});
  by_rows("four_shares_below_the_halo", five, {0, 1, 2, 3, 8});
  by_rows("far_neighbours_behind_an_empty_share", five, {0, 3, 4, 4, 8});
  by_rows("stride_two", two_convolutions({2, 3, 8, 6}, 3, {.stride = 2, .padding = 1}, rectified), {0, 1, 4});
  by_rows("maxima", two_convolutions({1, 2, 8, 6}, 3, {.padding = 1}, maxima), {0, 1, 3, 8});
  by_rows("maxima_of_stride_two", two_convolutions({2, 2, 8, 6}, 3, {.padding = 1}, halved), {0, 1, 4});
  by_rows("means", two_convolutions({1, 2, 8, 6}, 3, {.padding = 1}, means), {0, 2, 2, 8});
  by_rows("rows_in_one_piece", convolution_of_rows(1, 1), {0, 1, 1, 4, 8});
  by("rows_and_columns", three, {{"sp", 2, {0, 3, 8}}, {"sq", 3, {0, 1, 6}}});
  by("batch_and_rows", convolution_of_rows(3, 1), {{"dp", 0, {0, 1, 3}}, {"sp", 2, {0, 1, 8}}});
  out.push_back(exchange_of_slices(1));
  out.push_back(exchange_of_slices(2));
  out.push_back(leaf_with_its_halo());
  return out;
}

}  // namespace hetsynth::test
