#include "tests/attack/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "dsl/base/error.h"
#include "tests/attack/models.h"
#include "verify/refute/concrete.h"
#include "verify/refute/instance.h"
#include "verify/rules/form.h"

namespace hetsynth::attack {
namespace {

/// Above rounding of float64 over a step, far below what a wrong plan shows.
constexpr double tolerance = 1e-9;
/// This share of the largest number of a step is allowed for, as differences of large numbers may be small.
constexpr double rounding = 1e-12;

enum class Draw : uint8_t { real, positive, integer };

double drawn(Random& random, Draw draw) {
  const double unit = double(random() >> 11) * 0x1p-53;
  if (draw == Draw::real) return 3 * unit - 1.5;
  return draw == Draw::positive ? 0.1 + 1.4 * unit : double(below(random, 7) - 3);
}

Bindings random_leaves(const Program& reference, uint64_t seed, Draw draw) {
  Random random(seed);
  Bindings leaves;
  for (const Node& node : reference.nodes) {
    if (!node.leaf()) continue;
    Array array(node.type.shape);
    for (double& v : array.values)
      v = node.type.dtype == DType::i32 ? double(below(random, 5))
                                        : drawn(random, node.kind == NodeKind::state ? Draw::positive : draw);
    leaves[node.id] = std::move(array);
  }
  return leaves;
}

class Comparison {
 public:
  Comparison(const Program& reference, const SpmdProgram& plan, const Bindings& leaves,
             const EvaluationContext& context)
      : r_(reference), p_(plan), expected_(interpret(reference, leaves, context)) {
    for (const Array& array : expected_)
      for (double v : array.values)
        if (std::isfinite(v)) noise_ = std::max(noise_, std::abs(v) * rounding);
    execution_ = execute(reference, plan, leaves, context);
  }

  Judgement run() const {
    const Placements whole(p_.mesh.axes.size());
    if (p_.loss >= 0)
      if (auto text = differs(p_.loss, r_.loss, whole)) return {Difference::results, "loss: " + *text};
    for (const auto& [target, value] : p_.finals) {
      NodeId made = -1;
      for (const Update& u : r_.updates)
        if (u.target == target) made = u.value;
      for (ValueId leaf : p_.leaves)
        if (p_.values[size_t(leaf)].node == target)
          if (auto text = differs(value, made, p_.values[size_t(leaf)].placements))
            return {Difference::results, fmt::format("new contents of {}: {}", r_[target].name, *text)};
    }
    for (ValueId leaf : p_.leaves)
      if (auto wrong = word_is_wrong(leaf)) return *wrong;
    for (const Instruction& i : p_.instructions)
      if (auto wrong = word_is_wrong(i.result)) return *wrong;
    return {};
  }

 private:
  std::optional<Judgement> word_is_wrong(ValueId v) const {
    const Value& value = p_.values[size_t(v)];
    if (auto text = differs(v, tensor_at_end(v), value.placements))
      return Judgement{Difference::word, fmt::format("value {}: {}", value.name, *text)};
    return std::nullopt;
  }

  /// A carry's own value has taken over what the last turn handed on.
  NodeId tensor_at_end(ValueId v) const {
    const NodeId node = p_.values[size_t(v)].node, next = r_.next_of(node);
    for (const Instruction& i : p_.instructions)
      if (i.result == v && next >= 0 && i.opcode == Opcode::compute) return next;
    return node;
  }

  std::optional<std::string> differs(ValueId v, NodeId tensor, const Placements& placements) const {
    bool open = false;
    for (const Placement& p : placements) open |= p.kind == Placement::Kind::partial;
    try {
      for (int rank = 0; rank < p_.mesh.device_count(); ++rank) {
        if (holds(p_.mesh, placements, rank) != execution_.holds(v, rank))
          return fmt::format("device {} {}", rank, execution_.holds(v, rank) ? "holds it" : "holds nothing");
        if (!execution_.holds(v, rank)) continue;
        if (auto text = part_differs(v, tensor, placements, rank, open)) return text;
      }
      for (int rank = 0; open && rank < p_.mesh.device_count(); ++rank)
        if (execution_.holds(v, rank))
          if (auto text = sum_differs(v, tensor, placements, rank)) return text;
    } catch (const UserError& error) {
      return error.diagnostic().message;
    }
    return std::nullopt;
  }

  std::vector<Range> box_of(ValueId v, const Placements& placements, int rank) const {
    return local_ranges(p_, placements, r_[p_.values[size_t(v)].node].type.shape, rank);
  }

  /// Each element that the device holds is the sum over what one device per coordinate of the open axes holds of it:
  /// the one that lies on them as it does, or, where that has another part, the one that has it.
  std::optional<std::string> sum_differs(ValueId v, NodeId tensor, const Placements& placements, int rank) const {
    const std::map<std::vector<int>, std::vector<int>> summands = summands_of(placements, rank);
    ReduceOp reduce = ReduceOp::sum;
    for (const Placement& p : placements)
      if (p.kind == Placement::Kind::partial) reduce = p.reduce;
    std::vector<std::vector<Range>> boxes;
    for (int r = 0; r < p_.mesh.device_count(); ++r) boxes.push_back(box_of(v, placements, r));
    const Array& whole = expected_[size_t(tensor)];
    const std::vector<int64_t> strides = row_major_strides(whole.shape);
    for (size_t e = 0; e < whole.values.size(); ++e) {
      std::vector<int64_t> at;
      for (size_t d = 0; d < whole.shape.size(); ++d) at.push_back(int64_t(e) / strides[d] % whole.shape[d]);
      if (!position(boxes[size_t(rank)], at)) continue;
      double total = reduce == ReduceOp::max ? -std::numeric_limits<double>::infinity() : 0;
      for (const auto& [coordinates, devices] : summands) {
        const auto holder =
            std::ranges::find_if(devices, [&](int r) { return position(boxes[size_t(r)], at).has_value(); });
        if (holder == devices.end()) return fmt::format("no device holds a summand of {} at {}", r_[tensor].name, e);
        const double summand =
            execution_.values[size_t(v)][size_t(*holder)].array.values[*position(boxes[size_t(*holder)], at)];
        total = reduce == ReduceOp::max ? std::max(total, summand) : total + summand;
      }
      if (!near(whole.values[e], total))
        return numbers(tensor, e, total, fmt::format("the devices that device {} sums with", rank));
    }
    return std::nullopt;
  }

  /// By coordinates on the open axes: devices that lie on the axes of copies as `rank` does, the one that lies on all
  /// others so too before the rest.
  std::map<std::vector<int>, std::vector<int>> summands_of(const Placements& placements, int rank) const {
    std::map<std::vector<int>, std::vector<int>> out;
    for (int r = 0; r < p_.mesh.device_count(); ++r) {
      std::vector<int> open;
      bool copies_alike = holds(p_.mesh, placements, r), all_alike = true;
      for (int a = 0; a < int(placements.size()); ++a) {
        const Placement::Kind kind = placements[size_t(a)].kind;
        const bool alike = p_.mesh.coordinate(r, a) == p_.mesh.coordinate(rank, a);
        if (kind == Placement::Kind::partial) {
          open.push_back(p_.mesh.coordinate(r, a));
          continue;
        }
        copies_alike = copies_alike && (kind == Placement::Kind::sharded || alike);
        all_alike = all_alike && alike;
      }
      if (!copies_alike) continue;
      std::vector<int>& devices = out[open];
      devices.insert(all_alike ? devices.begin() : devices.end(), r);
    }
    return out;
  }

  /// Where an element lies in a part; nothing if it does not.
  static std::optional<size_t> position(const std::vector<Range>& box, const std::vector<int64_t>& at) {
    int64_t out = 0;
    for (size_t d = 0; d < box.size(); ++d) {
      if (at[d] < box[d].lo || at[d] >= box[d].hi) return std::nullopt;
      out = out * (box[d].hi - box[d].lo) + at[d] - box[d].lo;
    }
    return size_t(out);
  }

  std::optional<std::string> part_differs(ValueId v, NodeId tensor, const Placements& placements, int rank,
                                          bool open) const {
    const Array& whole = expected_[size_t(tensor)];
    const Array& found = execution_.values[size_t(v)][size_t(rank)].array;
    const std::vector<Range> box = local_ranges(p_, placements, whole.shape, rank);
    const std::vector<int64_t> strides = row_major_strides(whole.shape);
    for (size_t d = 0; d < box.size(); ++d)
      if (found.shape.size() != box.size() || found.shape[d] != box[d].hi - box[d].lo)
        return fmt::format("{} on device {} has {} elements", r_[tensor].name, rank, found.values.size());
    if (open) return std::nullopt;
    const std::vector<int64_t> inner = row_major_strides(found.shape);
    for (size_t e = 0; e < found.values.size(); ++e) {
      int64_t at = 0;
      for (size_t d = 0; d < box.size(); ++d) at += (int64_t(e) / inner[d] % found.shape[d] + box[d].lo) * strides[d];
      if (!near(whole.values[size_t(at)], found.values[e]))
        return numbers(tensor, size_t(at), found.values[e], fmt::format("device {}", rank));
    }
    return std::nullopt;
  }

  /// Where the program itself is not finite nothing is compared.
  bool near(double expected, double found) const {
    return !std::isfinite(expected) || std::abs(expected - found) <= noise_ + tolerance * (1 + std::abs(expected));
  }

  std::string numbers(NodeId tensor, size_t element, double found, const std::string& who) const {
    return fmt::format("{} at {} on {} is {:.6g}, but the program says {:.6g}", r_[tensor].name, element, who, found,
                       expected_[size_t(tensor)].values[element]);
  }

  const Program& r_;
  const SpmdProgram& p_;
  std::vector<Array> expected_;
  SpmdExecution execution_;
  double noise_ = 0;
};

}  // namespace

Judgement judge(const Program& reference, const SpmdProgram& plan, uint64_t seed, int trials) {
  Judgement word;
  for (int t = 0; t < trials; ++t) {
    const uint64_t own = seed + uint64_t(t) * 7919;
    const EvaluationContext context{.seed = own, .step = t % 4, .rounds = false};
    try {
      const Judgement found = Comparison(reference, plan, random_leaves(reference, own, Draw(t % 3)), context).run();
      if (found.difference == Difference::results) return found;
      if (word.difference == Difference::none) word = found;
    } catch (const ExecutionFault& fault) {
      return {Difference::results, fmt::format("the plan cannot be carried out: {}", fault.what())};
    }
  }
  return word;
}

Judgement judge_elsewhere(const Program& reference, const SpmdProgram& plan, uint64_t seed, int instances) {
  for (int i = 0; i < instances; ++i) {
    const Instance instance = shrink(reference, plan, seed + uint64_t(i));
    if (const auto flaw = flaw_of(instance.reference, instance.program)) return {Difference::form, flaw->text};
    const Judgement found = judge(instance.reference, instance.program, seed + uint64_t(i) * 104729, 1);
    if (found.difference != Difference::none)
      return {found.difference,
              fmt::format("at other sizes: {}\n{}", found.text, text(instance.program, instance.reference))};
  }
  return {};
}

}  // namespace hetsynth::attack
