#include "tests/support/halo_plan.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <source_location>
#include <utility>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

std::vector<Mesh::Axis> mesh_of(const std::vector<ImageCut>& cuts) {
  std::vector<Mesh::Axis> out;
  for (const ImageCut& cut : cuts) out.push_back({cut.axis, int(cut.bounds.size()) - 1});
  return out;
}

/// Table a cuts along axis a.
class ImagePlanner {
 public:
  ImagePlanner(const Program& reference, const std::vector<ImageCut>& cuts)
      : r_(reference), cuts_(cuts), b_(reference, mesh_of(cuts)) {
    for (size_t a = 0; a < cuts.size(); ++a)
      b_.table("part_" + cuts[a].axis, int(a), cuts[a].bounds.back(), cuts[a].bounds);
  }

  SpmdProgram run() {
    for (const Node& node : r_.nodes) {
      ValueId made = node.leaf() ? b_.leaf(node.id, leaf(node)) : compute(node);
      for (int a = 0; a < axes(); ++a)
        if (const Placement p = placements(made)[size_t(a)]; p.kind == Placement::Kind::partial)
          made = b_.all_reduce(made, a, p.reduce);
      forms_.push_back({made});
    }
    if (r_.loss >= 0) b_.plan.loss = held_as(r_.loss, Placements(cuts_.size()));
    for (const Update& update : r_.updates)
      b_.plan.finals.push_back({update.target, held_as(update.value, leaf(r_[update.target]))});
    return std::move(b_.plan);
  }

 private:
  int axes() const { return int(cuts_.size()); }
  int64_t units(int axis) const { return cuts_[size_t(axis)].bounds.back(); }
  const Placements& placements(ValueId value) const { return b_.plan.values[size_t(value)].placements; }
  Placement now(NodeId node, int axis) const { return placements(forms_[size_t(node)][0])[size_t(axis)]; }

  Placements leaf(const Node& node) const {
    Placements out(cuts_.size());
    for (int a = 0; a < axes(); ++a) {
      const int dim = cuts_[size_t(a)].dim;
      const bool image = node.kind == NodeKind::input && node.type.shape.size() == 4;
      if (image && node.type.shape[size_t(dim)] % units(a) == 0) out[size_t(a)] = Placement::sharded(dim, a);
    }
    return out;
  }

  /// How the operand is to be held along the axis where the factor is divided; nullopt if it cannot be.
  std::optional<Placement> needed(const Node& node, size_t j, int axis, int factor) const {
    const Access& access = node.space.inputs[j];
    const Shape& shape = r_[node.inputs[j]].type.shape;
    if (factor < 0 || !mentions_factor(access, factor)) return Placement::replicated();
    if (const auto cut = cut_of(node.space, access, shape, factor)) return Placement::sharded(cut->dim, axis);
    if (const auto cut = window_cut_of(node.space, access, shape, factor))
      return Placement::overlapping(cut->dim, axis, cut->before, cut->after);
    return std::nullopt;
  }

  /// Operands that lie as the factor wants them, but for the halo; -1: it cannot be divided.
  int fitting(const Node& node, int axis, int factor) const {
    const Factor& f = node.space.factors[size_t(factor)];
    if (f.kind == FactorKind::whole || f.size % units(axis) != 0) return -1;
    if (!f.reduced() && !cut_of(node.space, node.space.output, node.type.shape, factor)) return -1;
    int out = 0;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const auto wanted = needed(node, j, axis, factor);
      if (!wanted) return -1;
      const Placement lies = now(node.inputs[j], axis);
      out += lies.kind == Placement::Kind::sharded && wanted->kind == lies.kind && wanted->dim == lies.dim;
    }
    return out;
  }

  ValueId compute(const Node& node) {
    std::vector<Split> splits(cuts_.size());
    for (int a = 0; a < axes(); ++a)
      for (int f = 0, most = 0; f < int(node.space.factors.size()); ++f)
        if (const int fit = fitting(node, a, f); fit > most) most = fit, splits[size_t(a)] = {f, a};
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      Placements wanted;
      for (int a = 0; a < axes(); ++a) wanted.push_back(*needed(node, j, a, splits[size_t(a)].factor));
      operands.push_back(held_as(node.inputs[j], wanted));
    }
    return b_.compute(node.id, operands, splits);
  }

  /// The form of a tensor that is held so, made if there is none yet.
  ValueId held_as(NodeId node, const Placements& wanted) {
    for (ValueId v : forms_[size_t(node)])
      if (placements(v) == wanted) return v;
    ValueId made = forms_[size_t(node)][0];
    for (int a = 0; a < axes(); ++a) {
      Placement own = wanted[size_t(a)];
      own.before = own.after = 0;
      const Placement lies = placements(made)[size_t(a)];
      if (lies == own) continue;
      if (lies.kind == Placement::Kind::sharded) made = b_.all_gather(made, a);
      if (own.kind == Placement::Kind::sharded) made = b_.slice(made, a, own.dim, own.table);
    }
    for (int a = 0; a < axes(); ++a)
      if (const Placement& p = wanted[size_t(a)]; p.overlaps()) made = b_.halo_exchange(made, a, p.before, p.after);
    forms_[size_t(node)].push_back(made);
    return made;
  }

  const Program& r_;
  const std::vector<ImageCut>& cuts_;
  PlanBuilder b_;
  std::vector<std::vector<ValueId>> forms_;  ///< by node: the tensor as it was made, and moved
};

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

SpmdProgram divided_images(const Program& reference, const std::vector<ImageCut>& cuts) {
  return ImagePlanner(reference, cuts).run();
}

SpmdProgram divided_by_rows(const Program& reference, std::vector<int64_t> bounds) {
  return divided_images(reference, {{"sp", 2, std::move(bounds)}});
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
  const auto by = [&](const char* name, const Program& reference, const std::vector<ImageCut>& cuts) {
    out.push_back({name, reference, divided_images(reference, cuts)});
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
