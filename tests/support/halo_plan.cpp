#include "tests/support/halo_plan.h"

#include <functional>
#include <optional>
#include <source_location>
#include <utility>

#include "dsl/ir/differentiate.h"
#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "tests/support/plan_builder.h"

namespace hetsynth::test {
namespace {

constexpr int table = 0;

class RowPlanner {
 public:
  RowPlanner(const Program& reference, std::vector<int64_t> bounds)
      : r_(reference), b_(reference, {{"sp", int(bounds.size()) - 1}}), units_(bounds.back()) {
    b_.table("rows", 0, units_, std::move(bounds));
  }

  SpmdProgram run() {
    for (const Node& node : r_.nodes) {
      ValueId made = node.leaf() ? b_.leaf(node.id, {leaf(node)}) : compute(node);
      if (const Placement p = placement(made); p.kind == Placement::Kind::partial)
        made = b_.all_reduce(made, 0, p.reduce);
      forms_.push_back({made});
    }
    if (r_.loss >= 0) b_.plan.loss = held_as(r_.loss, Placement::replicated());
    for (const Update& update : r_.updates)
      b_.plan.finals.push_back({update.target, held_as(update.value, leaf(r_[update.target]))});
    return std::move(b_.plan);
  }

 private:
  Placement placement(ValueId value) const { return b_.plan.values[size_t(value)].placements[0]; }
  Placement now(NodeId node) const { return placement(forms_[size_t(node)][0]); }

  Placement leaf(const Node& node) const {
    const bool image = node.kind == NodeKind::input && node.type.shape.size() == 4 && node.type.shape[2] % units_ == 0;
    return image ? Placement::sharded(2, table) : Placement::replicated();
  }

  /// How the operand is to be held where the factor is divided; nullopt if it cannot be.
  std::optional<Placement> needed(const Node& node, size_t j, int factor) const {
    const Access& access = node.space.inputs[j];
    const Shape& shape = r_[node.inputs[j]].type.shape;
    if (factor < 0 || !mentions_factor(access, factor)) return Placement::replicated();
    if (const auto cut = cut_of(node.space, access, shape, factor)) return Placement::sharded(cut->dim, table);
    if (const auto cut = window_cut_of(node.space, access, shape, factor))
      return Placement::overlapping(cut->dim, table, cut->before, cut->after);
    return std::nullopt;
  }

  /// Operands that lie as the factor wants them, but for the halo; -1: it cannot be divided.
  int fitting(const Node& node, int factor) const {
    const Factor& f = node.space.factors[size_t(factor)];
    if (f.kind == FactorKind::whole || f.size % units_ != 0) return -1;
    if (!f.reduced() && !cut_of(node.space, node.space.output, node.type.shape, factor)) return -1;
    int out = 0;
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const auto wanted = needed(node, j, factor);
      if (!wanted) return -1;
      const Placement lies = now(node.inputs[j]);
      out += lies.kind == Placement::Kind::sharded && wanted->kind == lies.kind && wanted->dim == lies.dim;
    }
    return out;
  }

  ValueId compute(const Node& node) {
    int best = -1, most = 0;
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      if (const int fit = fitting(node, int(f)); fit > most) most = fit, best = int(f);
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j) operands.push_back(held_as(node.inputs[j], *needed(node, j, best)));
    return b_.compute(node.id, operands, {Split{best, best < 0 ? -1 : table}});
  }

  /// The form of a tensor that is held so, made if there is none yet.
  ValueId held_as(NodeId node, const Placement& wanted) {
    for (ValueId v : forms_[size_t(node)])
      if (placement(v) == wanted) return v;
    const ValueId first = forms_[size_t(node)][0];
    ValueId made = first;
    if (wanted.overlaps())
      made =
          b_.halo_exchange(held_as(node, Placement::sharded(wanted.dim, wanted.table)), 0, wanted.before, wanted.after);
    else if (placement(first).kind == Placement::Kind::replicated)
      made = b_.slice(first, 0, wanted.dim, wanted.table);
    else if (wanted.kind == Placement::Kind::replicated)
      made = b_.all_gather(first, 0);
    else
      made = b_.slice(b_.all_gather(first, 0), 0, wanted.dim, wanted.table);
    forms_[size_t(node)].push_back(made);
    return made;
  }

  const Program& r_;
  PlanBuilder b_;
  int64_t units_;
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

}  // namespace

SpmdProgram divided_by_rows(const Program& reference, std::vector<int64_t> bounds) {
  return RowPlanner(reference, std::move(bounds)).run();
}

Program convolution_of_rows(int64_t batch, int64_t channels) {
  return traced([&] {
    Tensor x = images({batch, channels, 8, 6});
    Tensor y = conv2d(x, weight("w", {channels, channels, 3, 3}), {.padding = 1});
    output("y", y);
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
  return {{"two_uneven", three, {0, 3, 8}},
          {"three_with_an_empty_share", three, {0, 5, 5, 8}},
          {"one_has_all", three, {0, 0, 8, 8}},
          {"four_shares_below_the_halo", five, {0, 1, 2, 3, 8}},
          {"far_neighbours_behind_an_empty_share", five, {0, 3, 4, 4, 8}},
          {"stride_two", two_convolutions({2, 3, 8, 6}, 3, {.stride = 2, .padding = 1}, rectified), {0, 1, 4}},
          {"maxima", two_convolutions({1, 2, 8, 6}, 3, {.padding = 1}, maxima), {0, 1, 3, 8}},
          {"maxima_of_stride_two", two_convolutions({2, 2, 8, 6}, 3, {.padding = 1}, halved), {0, 1, 4}},
          {"means", two_convolutions({1, 2, 8, 6}, 3, {.padding = 1}, means), {0, 2, 2, 8}},
          {"rows_in_one_piece", convolution_of_rows(1, 1), {0, 1, 1, 4, 8}}};
}

}  // namespace hetsynth::test
