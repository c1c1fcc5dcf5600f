#include "verify/refute/refute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "dsl/ir/product_sum.h"
#include "verify/refute/concrete.h"
#include "verify/refute/instance.h"

namespace hetsynth {

namespace {

/// Above rounding of float64 over a whole step, far below what a wrong plan shows.
constexpr double tolerance = 1e-9;
/// Of float64, times room for the length of a program.
constexpr double rounding = 1e-12;
/// Body evaluations of one instance, all devices together: about half a second at the plan's own sizes, a few seconds
/// for a smaller instance of a very deep model.
constexpr double max_own_evaluations = 4e6;
constexpr double max_shrunken_evaluations = 6e7;
constexpr int own_size_trials = 2;
constexpr int shrunken_trials = 12;
/// Further instances whose results are looked at once a wrong word on a value is known.
constexpr int shrunken_trials_after_word = 3;
/// Of a trial beside a proof.
constexpr int proof_trials = 3;
constexpr int other_values = 2;
/// Body evaluations of one instance, all devices together: about a tenth of a second.
constexpr double max_trial_evaluations = 1.5e6;
constexpr const char* elsewhere = "\n(the same instructions at other sizes and boundaries)";

double evaluations(const Program& reference, const SpmdProgram& program) {
  double total = 0;
  for (const Node& node : reference.nodes)
    total += node.leaf() ? double(element_count(node.type.shape))
                         : double(reference.turns(node.id)) * evaluation_cost(node.space, node.body);
  for (const Instruction& i : program.instructions) {
    NodeId node = program.values[i.result].node;
    const int loop = loop_of(reference, program, i);
    double devices = program.mesh.device_count() * (loop < 0 ? 1.0 : double(reference.loops[size_t(loop)].turns));
    for (int a = 0; a < int(program.mesh.axes.size()); ++a) {
      const bool on_stage = i.opcode == Opcode::compute
                                ? i.splits[size_t(a)].stage >= 0
                                : program.values[i.operands[0]].placements[size_t(a)].kind == Placement::Kind::stage;
      if (on_stage) devices /= program.mesh.axes[size_t(a)].size;
    }
    total +=
        devices * (1 + (i.opcode == Opcode::compute ? evaluation_cost(reference[i.node].space, reference[i.node].body)
                                                    : double(element_count(reference[node].type.shape))));
  }
  return total;
}

/// Random leaves: states positive, as second moments are; integers below a few, so that they name positions even in
/// small tables.
Bindings random_leaves(const Program& reference, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto uniform = [&](double low, double high) { return low + (high - low) * double(random() >> 11) * 0x1p-53; };
  Bindings leaves;
  for (const Node& node : reference.nodes) {
    if (!node.leaf()) continue;
    Array array(node.type.shape);
    for (double& v : array.values) {
      if (node.type.dtype == DType::i32)
        v = double(random() % 4);
      else
        v = node.kind == NodeKind::state ? uniform(0.1, 1.5) : uniform(-1.5, 1.5);
    }
    leaves[node.id] = std::move(array);
  }
  return leaves;
}

struct Difference {
  size_t element = 0;
  double expected = 0, found = 0;
};

/// The first element that differs by more than `noise`. Where the reference itself is not finite nothing is compared.
std::optional<Difference> first_difference(const Array& expected, const Array& found, double noise) {
  for (size_t e = 0; e < expected.values.size(); ++e) {
    double a = expected.values[e], b = found.values[e];
    if (std::isfinite(a) && !(std::abs(a - b) <= noise + tolerance * (1 + std::abs(a)))) return Difference{e, a, b};
  }
  return std::nullopt;
}

std::string index_text(const Shape& shape, size_t element) {
  std::vector<size_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    index[d] = element % size_t(shape[d]);
    element /= size_t(shape[d]);
  }
  return fmt::format("[{}]", fmt::join(index, ","));
}

class Trial {
 public:
  Trial(const Program& reference, const SpmdProgram& program, uint64_t seed)
      : r_(reference), p_(program), seed_(seed) {}

  /// A counterexample if the plan's results differ from the reference's on this instance.
  std::optional<Counterexample> results() {
    Bindings leaves = random_leaves(r_, seed_);
    // Over the reals, as the proof: roundings to 16 bits would differ between right plans.
    EvaluationContext context{seed_, int64_t(seed_ % 5), false};
    expected_ = interpret(r_, leaves, context);
    try {
      execution_ = execute(r_, p_, leaves, context);
    } catch (const ExecutionFault& fault) {
      return report(fault.node, fmt::format("the plan cannot be carried out: {}", fault.what()));
    }
    if (!results_differ()) return std::nullopt;
    return first_diverging();
  }

  /// After results() found nothing: a counterexample to what the plan says of a value that no result depends on, or not
  /// on just that.
  std::optional<Counterexample> claims() {
    note_magnitudes();
    for (ValueId v = 0; v < ValueId(p_.values.size()); ++v) {
      std::optional<std::string> text;
      if (!execution_.values[size_t(v)].empty()) text = value_differs(v);
      if (!text) continue;
      Counterexample out =
          report(p_.values[v].node,
                 fmt::format("the plan's word on value {} is wrong: {}\n(loss and updates are right all the "
                             "same; but source is laid out by the plan's words)",
                             p_.values[v].name, *text));
      out.evidence = Evidence::word;
      return out;
    }
    return std::nullopt;
  }

 private:
  /// Values within a step are compared up to the rounding of the largest number met so far: differences of large
  /// numbers may be small.
  void note_magnitudes() {
    for (const Array& array : expected_)
      for (double v : array.values)
        if (std::isfinite(v)) noise_ = std::max(noise_, std::abs(v) * rounding);
  }

  Counterexample report(NodeId node, const std::string& text) const {
    Counterexample out;
    out.where = r_[node].where;
    out.text = text + "\n" + setting();
    return out;
  }

  /// The part of the reference's tensor that a device should hold, and what it holds.
  std::optional<Difference> part_differs(NodeId node, const Placements& placements, ValueId value, int rank) const {
    const Array& whole = expected_[node];
    const bool should_hold = holds(p_.mesh, placements, rank);
    if (should_hold != execution_.holds(value, rank)) return Difference{0, double(should_hold), double(!should_hold)};
    if (!should_hold) return std::nullopt;
    std::vector<Range> box = local_ranges(p_, placements, whole.shape, rank);
    const Array& found = execution_.values[value][rank].array;
    Shape shape;
    for (const Range& range : box) shape.push_back(range.hi - range.lo);
    if (found.shape != shape) return Difference{0, double(element_count(shape)), double(element_count(found.shape))};
    return first_difference(part_of(whole, box, shape), found, noise_);
  }

  static Array part_of(const Array& whole, const std::vector<Range>& box, const Shape& shape) {
    Array part(shape);
    std::vector<int64_t> inner = row_major_strides(shape), outer = row_major_strides(whole.shape);
    for (size_t e = 0; e < part.values.size(); ++e) {
      int64_t at = 0;
      for (size_t d = 0; d < shape.size(); ++d) at += (int64_t(e) / inner[d] % shape[d] + box[d].lo) * outer[d];
      part.values[e] = whole.values[size_t(at)];
    }
    return part;
  }

  bool differs_anywhere(NodeId node, const Placements& placements, ValueId value) const {
    for (int rank = 0; rank < p_.mesh.device_count(); ++rank)
      if (part_differs(node, placements, value, rank)) return true;
    return false;
  }

  /// Only what outlives the step counts: loss and new contents.
  bool results_differ() const {
    if (p_.loss >= 0 && r_.loss >= 0 && differs_anywhere(r_.loss, Placements(p_.mesh.axes.size()), p_.loss))
      return true;
    for (const Update& update : r_.updates) {
      auto held = std::find_if(p_.leaves.begin(), p_.leaves.end(),
                               [&](ValueId v) { return p_.values[v].node == update.target; });
      auto made = std::find_if(p_.finals.begin(), p_.finals.end(), [&](auto& f) { return f.first == update.target; });
      if (held == p_.leaves.end()) continue;
      ValueId value = made == p_.finals.end() ? *held : made->second;
      if (differs_anywhere(update.value, p_.values[*held].placements, value)) return true;
    }
    return false;
  }

  /// The first value, in the plan's order and by the plan's claims, that is not what the reference computes.
  Counterexample first_diverging() const {
    for (const Instruction& i : p_.instructions)
      if (std::optional<std::string> text = value_differs(i.result)) return report(p_.values[i.result].node, *text);
    if (p_.loss >= 0)
      if (auto text = tensor_differs(r_.loss, Placements(p_.mesh.axes.size()), p_.loss)) return report(r_.loss, *text);
    for (const Update& update : r_.updates)
      for (ValueId leaf : p_.leaves) {
        if (p_.values[leaf].node != update.target) continue;
        ValueId value = leaf;
        for (auto [target, made] : p_.finals)
          if (target == update.target) value = made;
        if (auto text = tensor_differs(update.value, p_.values[leaf].placements, value))
          return report(update.target, fmt::format("new contents of {}: {}", r_[update.target].name, *text));
      }
    return {};
  }

  /// What a value holds behind the step: a carry's own value has taken over what the last turn handed on.
  NodeId held_at_end(ValueId v) const {
    const NodeId node = p_.values[v].node, next = r_.next_of(node);
    const bool carry =
        next >= 0 && std::any_of(p_.instructions.begin(), p_.instructions.end(),
                                 [&](const Instruction& i) { return i.result == v && i.opcode == Opcode::compute; });
    return carry ? next : node;
  }

  std::optional<std::string> value_differs(ValueId v) const {
    const Value& value = p_.values[v];
    const NodeId node = held_at_end(v);
    bool partial = false;
    for (const Placement& p : value.placements) partial |= p.kind == Placement::Kind::partial;
    if (!partial) return tensor_differs(node, value.placements, v);
    try {
      for (int replica = 0; replica < p_.mesh.device_count(); ++replica) {
        if (!holds(p_.mesh, value.placements, replica)) continue;
        Array whole = assemble(r_, p_, execution_, v, replica);
        auto difference = first_difference(expected_[node], whole, noise_);
        if (difference) return numbers(node, whole.shape, *difference, "all devices together");
      }
      return std::nullopt;
    } catch (const ExecutionFault& fault) {
      return std::string(fault.what());
    } catch (const UserError& error) {
      return error.diagnostic().message;
    }
  }

  std::optional<std::string> tensor_differs(NodeId node, const Placements& placements, ValueId value) const {
    for (int rank = 0; rank < p_.mesh.device_count(); ++rank) {
      const Array& found = execution_.values[value][rank].array;
      std::optional<Difference> difference;
      try {
        difference = part_differs(node, placements, value, rank);
      } catch (const UserError& error) {
        return error.diagnostic().message;
      }
      if (!difference) continue;
      if (holds(p_.mesh, placements, rank) != execution_.holds(value, rank))
        return execution_.holds(value, rank)
                   ? fmt::format("device {} holds {}, which should lie on another stage alone", rank, r_[node].name)
                   : fmt::format("device {} should hold {}, but holds nothing", rank, r_[node].name);
      Shape expected = local_shape(p_, placements, r_[node].type.shape, rank);
      if (expected != found.shape)
        return fmt::format("{} should be {} on device {}, but is {}", r_[node].name, text(expected), rank,
                           text(found.shape));
      return numbers(node, expected, *difference, fmt::format("device {}", rank));
    }
    return std::nullopt;
  }

  std::string numbers(NodeId node, const Shape& shape, const Difference& d, const std::string& who) const {
    return fmt::format("{}{} on {} is {:.6g}, but the program says {:.6g}", r_[node].name, index_text(shape, d.element),
                       who, d.found, d.expected);
  }

  std::string setting() const {
    std::vector<std::string> mesh, tables, leaves;
    for (const Mesh::Axis& axis : p_.mesh.axes) mesh.push_back(fmt::format("{} = {}", axis.name, axis.size));
    for (const BoundaryTable& t : p_.tables) {
      if (t.by < 0) tables.push_back(fmt::format("{} = [{}]", t.name, fmt::join(t.bounds, ",")));
      for (size_t row = 0; row < t.rows.size(); ++row)
        tables.push_back(
            fmt::format("{} at {} {} = [{}]", t.name, p_.mesh.axes[t.by].name, row, fmt::join(t.rows[row], ",")));
    }
    for (const Node& node : r_.nodes)
      if (node.leaf() && node.kind != NodeKind::state && leaves.size() < 12)
        leaves.push_back(fmt::format("{} {}", node.name, text(node.type.shape)));
    return fmt::format("devices {}; tables {}; sizes {}", fmt::join(mesh, ", "),
                       tables.empty() ? "none" : fmt::format("{}", fmt::join(tables, ", ")), fmt::join(leaves, ", "));
  }

  const Program& r_;
  const SpmdProgram& p_;
  uint64_t seed_;
  std::vector<Array> expected_;
  SpmdExecution execution_;
  double noise_ = 0;
};

}  // namespace

Refutation find_counterexample(const Program& reference, const SpmdProgram& program, smt::Clock::time_point deadline,
                               uint64_t seed) {
  auto late = [&] { return smt::Clock::now() >= deadline; };
  bool own_sizes = evaluations(reference, program) <= max_own_evaluations;
  std::optional<Counterexample> word;
  for (int trial = 0; own_sizes && trial < own_size_trials && !late(); ++trial) {
    Trial at(reference, program, seed + uint64_t(trial));
    if (auto found = at.results()) return {std::move(found), true};
    if (!word) word = at.claims();
  }
  if (word) return {std::move(word), true};
  int since_word = 0;
  for (int trial = 0; trial < shrunken_trials && since_word < shrunken_trials_after_word && !late(); ++trial) {
    Instance instance = shrink(reference, program, seed + uint64_t(trial));
    if (evaluations(instance.reference, instance.program) > max_shrunken_evaluations) continue;
    Trial at(instance.reference, instance.program, seed + uint64_t(trial) + 100);
    if (auto found = at.results()) {
      found->text += elsewhere;
      return {std::move(found), !own_sizes};
    }
    if (!word && (word = at.claims())) word->text += elsewhere;
    since_word += word.has_value();
  }
  bool found = word.has_value();
  return {std::move(word), found && !own_sizes};
}

namespace {

/// What differs between plan and reference at this instance, whatever the values.
std::optional<Counterexample> lasting_difference(const Instance& instance, uint64_t seed) {
  std::optional<Counterexample> found;
  for (int values = 0; values <= other_values; ++values) {
    Trial trial(instance.reference, instance.program, seed + 1000 * uint64_t(values));
    found = trial.results();
    if (!found) found = trial.claims();
    if (!found) return std::nullopt;
  }
  return found;
}

}  // namespace

ProofTrial try_proved(const Program& reference, const SpmdProgram& program, smt::Clock::time_point deadline,
                      uint64_t seed) {
  ProofTrial out;
  bool smallest = false;
  for (int trial = 0; trial < proof_trials; ++trial) {
    if (smt::Clock::now() >= deadline) {
      out.left_out = "the time for it was over";
      return out;
    }
    Instance instance = shrink(reference, program, seed + uint64_t(trial), smallest);
    double work = evaluations(instance.reference, instance.program);
    if (work > max_trial_evaluations && !smallest) {
      smallest = true;
      instance = shrink(reference, program, seed + uint64_t(trial), smallest);
      work = evaluations(instance.reference, instance.program);
    }
    if (work > max_trial_evaluations) {
      out.left_out = "it is very long, or keeps sizes that are not small";
      return out;
    }
    out.difference = lasting_difference(instance, seed + uint64_t(trial) + 100);
    if (out.difference) return out;
    ++out.instances;
  }
  return out;
}

}  // namespace hetsynth
