#include "verify/refute/concrete.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "dsl/base/error.h"

namespace hetsynth {

namespace {

/// Calls visit(position in the whole, position in the part) for every element of a box of a row-major tensor.
template <typename Visit>
void each_element(const Shape& whole, const std::vector<Range>& box, Visit&& visit) {
  std::vector<int64_t> strides = row_major_strides(whole), at;
  for (const Range& range : box) {
    if (range.lo >= range.hi) return;
    at.push_back(range.lo);
  }
  for (size_t part = 0;; ++part) {
    int64_t position = 0;
    for (size_t d = 0; d < at.size(); ++d) position += at[d] * strides[d];
    visit(size_t(position), part);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == box[d - 1].hi) --d, at[d] = box[d].lo;
    if (d == 0) return;
  }
}

std::vector<Range> box_of(const Shape& shape) {
  std::vector<Range> box;
  for (int64_t extent : shape) box.push_back({0, extent});
  return box;
}

Shape shape_of(const std::vector<Range>& box) {
  Shape shape;
  for (const Range& range : box) shape.push_back(range.hi - range.lo);
  return shape;
}

Array cut_out(const Array& from, const std::vector<Range>& box) {
  Array part(shape_of(box));
  each_element(from.shape, box, [&](size_t whole, size_t at) { part.values[at] = from.values[whole]; });
  return part;
}

double identity(ReduceOp reduce) {
  switch (reduce) {
    case ReduceOp::max:
      return -std::numeric_limits<double>::infinity();
    case ReduceOp::min:
      return std::numeric_limits<double>::infinity();
    case ReduceOp::product:
      return 1;
    default:
      return 0;
  }
}

double combine(ReduceOp reduce, double a, double b) {
  switch (reduce) {
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::product:
      return a * b;
    default:
      return a + b;
  }
}

class Execution {
 public:
  Execution(const Program& reference, const SpmdProgram& program, const Bindings& leaves,
            const EvaluationContext& context)
      : reference_(reference),
        p_(program),
        leaves_(leaves),
        context_(context),
        devices_(program.mesh.device_count()),
        logical_(program.values.size()) {
    out_.values.resize(program.values.size());
    out_.held.resize(program.values.size());
  }

  SpmdExecution run() {
    for (ValueId leaf : p_.leaves) guarded(p_.values[leaf].node, [&] { place_leaf(leaf); });
    const std::vector<LoopSpan> spans = loop_spans(reference_, p_);
    auto span = spans.begin();
    for (int i = 0; i < int(p_.instructions.size());) {
      if (span == spans.end() || i < span->first) {
        carry_out(i++, 0);
        continue;
      }
      turns(*span);
      i = (span++)->last;
    }
    return std::move(out_);
  }

 private:
  void carry_out(int number, int64_t turn) {
    number_ = number;
    const Instruction& instruction = p_.instructions[size_t(number)];
    guarded(p_.values[instruction.result].node,
            [&] { instruction.opcode == Opcode::compute ? compute(instruction, turn) : move(instruction); });
  }

  void turns(const LoopSpan& span) {
    const int64_t count = reference_.loops[size_t(span.loop)].turns;
    for (int64_t turn = 0; turn < count; ++turn) {
      for (int i = span.first; i < span.last; ++i)
        if (turn == 0 || !begins(p_.instructions[size_t(i)])) carry_out(i, turn);
      hand_on(span);
    }
  }

  bool begins(const Instruction& i) const { return i.opcode == Opcode::compute && reference_.next_of(i.node) >= 0; }

  /// All carries at once. Also behind the last turn: what a carry was in it is gone, as in generated source.
  void hand_on(const LoopSpan& span) {
    std::vector<std::pair<ValueId, ValueId>> pairs;
    for (int i = span.first; i < span.last; ++i)
      for (const auto& [carry, next] : p_.carried)
        if (begins(p_.instructions[size_t(i)]) && p_.instructions[size_t(i)].node == carry)
          pairs.push_back({p_.instructions[size_t(i)].result, next});
    std::vector<std::vector<LocalArray>> contents;
    for (const auto& pair : pairs) contents.push_back(out_.values[size_t(pair.second)]);
    for (size_t p = 0; p < pairs.size(); ++p) {
      out_.values[size_t(pairs[p].first)] = std::move(contents[p]);
      out_.held[size_t(pairs[p].first)] = out_.held[size_t(pairs[p].second)];
    }
  }

  /// Turns the errors of reading what is not there, or of a table that does not fit, into faults of this instruction.
  template <typename Action>
  void guarded(NodeId node, Action&& action) {
    node_ = node;
    try {
      action();
    } catch (const UserError& error) {
      fault(error.diagnostic().message);
    } catch (const InternalError& error) {
      fault(error.what());
    }
  }

  [[noreturn]] void fault(const std::string& text) const {
    throw ExecutionFault(fmt::format("{}: {}", reference_[node_].name, text), number_, node_);
  }
  void expect(bool holds, const std::string& text) const {
    if (!holds) fault(text);
  }

  void place_leaf(ValueId leaf) {
    const Value& value = p_.values[leaf];
    const Array& whole = leaves_.at(value.node);
    logical_[leaf] = whole.shape;
    for (const Placement& p : value.placements)
      expect(p.kind != Placement::Kind::sharded || (p.dim >= 0 && p.dim < int(whole.shape.size())),
             "there is no such dimension to cut");
    for (int rank = 0; rank < devices_; ++rank) {
      if (!hetsynth::holds(p_.mesh, value.placements, rank)) {
        give(leaf, rank, std::nullopt);
        continue;
      }
      std::vector<Range> box = local_ranges(p_, value.placements, whole.shape, rank);
      LocalArray local{cut_out(whole, box), {}};
      for (const Range& range : box) local.offset.push_back(range.lo);
      give(leaf, rank, std::move(local));
    }
  }

  /// What a device holds of a value; nothing if it lies on another stage.
  void give(ValueId value, int rank, std::optional<LocalArray> local) {
    out_.held[value].resize(size_t(devices_));
    out_.values[value].resize(size_t(devices_));
    out_.held[value][rank] = local.has_value();
    out_.values[value][rank] = local ? std::move(*local) : LocalArray{Array(), {}};
  }

  bool on_stage(const std::vector<Split>& splits, int rank) const {
    for (size_t a = 0; a < splits.size(); ++a)
      if (splits[a].stage >= 0 && p_.mesh.coordinate(rank, int(a)) != splits[a].stage) return false;
    return true;
  }

  void compute(const Instruction& i, int64_t turn) {
    const Node& node = reference_[i.node];
    const Space space = in_turn(node.space, turn);
    for (size_t j = 0; j < i.operands.size(); ++j)
      expect(logical_[i.operands[j]].size() == node.space.inputs[j].dims.size(),
             fmt::format("operand {} has {} dimensions", j, logical_[i.operands[j]].size()));
    logical_[i.result] = node.type.shape;
    for (int rank = 0; rank < devices_; ++rank) {
      if (!on_stage(i.splits, rank)) {
        give(i.result, rank, std::nullopt);
        continue;
      }
      std::vector<LocalArray> operands;
      for (ValueId v : i.operands) operands.push_back(local(v, rank));
      try {
        LocalArray part =
            evaluate(space, node.body, operands, factor_ranges(p_, space, i.splits, rank), node.type.shape, context_);
        if (const int dim = stacked_dim(node.space); dim >= 0) {
          LocalArray filled = turn == 0 ? LocalArray{Array(), {}} : std::move(out_.values[i.result][rank]);
          put_turn(std::move(part), dim, node.type.shape[size_t(dim)], turn == 0, filled);
          part = std::move(filled);
        }
        give(i.result, rank, std::move(part));
      } catch (const InternalError& error) {
        fault(fmt::format("on device {}, {}", rank, error.what()));
      }
    }
  }

  /// A turn's part of what the device holds of a tensor that a loop fills along `dim`.
  static void put_turn(LocalArray part, int dim, int64_t extent, bool first, LocalArray& held) {
    if (first) {
      held = {part.array, part.offset};
      held.array.shape[size_t(dim)] = extent;
      held.array = Array(held.array.shape);
      held.offset[size_t(dim)] = 0;
    }
    for (size_t d = 0; d < part.offset.size(); ++d) part.offset[d] -= held.offset[d];
    put_part(part, held.array);
  }

  void move(const Instruction& i) {
    ValueId from = i.operands[0];
    logical_[i.result] = logical_[from];
    std::vector<std::optional<LocalArray>> results;
    const bool rooted = i.opcode == Opcode::broadcast || i.opcode == Opcode::to_partial || i.opcode == Opcode::send;
    for (int rank = 0; rank < devices_; ++rank) {
      const bool gets = i.opcode != Opcode::send || p_.mesh.coordinate(rank, i.axis) == i.to;
      const bool any = rooted ? any_holds(from, p_.mesh.group(rank, i.axis)) : out_.holds(from, rank);
      results.push_back(gets && any ? std::optional(moved(i, from, rank)) : std::nullopt);
    }
    for (int rank = 0; rank < devices_; ++rank) give(i.result, rank, std::move(results[size_t(rank)]));
  }

  bool any_holds(ValueId v, const std::vector<int>& ranks) const {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return out_.holds(v, rank); });
  }

  const LocalArray& local(ValueId v, int rank) const {
    expect(out_.holds(v, rank),
           fmt::format("device {} is to give {}, which it does not hold", rank, reference_[p_.values[v].node].name));
    return out_.values[v][rank];
  }

  LocalArray moved(const Instruction& i, ValueId from, int rank) const {
    switch (i.opcode) {
      case Opcode::slice:
        return part(i, local(from, rank), i.dim, i.table, from, rank);
      case Opcode::to_partial: {
        LocalArray out = local(from, out_.holds(from, rank) ? rank : p_.mesh.group(rank, i.axis)[i.root]);
        if (p_.mesh.coordinate(rank, i.axis) != i.root)
          std::fill(out.array.values.begin(), out.array.values.end(), 0.0);
        return out;
      }
      case Opcode::all_gather:
        return gathered(i, from, rank);
      case Opcode::all_reduce:
        return reduced(i, from, rank);
      case Opcode::reduce_scatter:
        return part(i, reduced(i, from, rank), i.dim, i.table, from, rank);
      case Opcode::all_to_all:
        return part(i, gathered(i, from, rank), i.to_dim, i.to_table, from, rank);
      case Opcode::halo_exchange:
        return widened(i, from, rank);
      default: {
        // broadcast and send
        const LocalArray& root = local(from, p_.mesh.group(rank, i.axis)[i.root]);
        const bool fits = !out_.holds(from, rank) || root.array.shape == local(from, rank).array.shape;
        expect(fits, "the root's tensor has another size");
        return root;
      }
    }
  }

  /// What a rank holds under a table, and what its group holds together.
  struct Share {
    Range own, group;
    /// Counted from where the group's part begins.
    Range within() const { return {own.lo - group.lo, own.hi - group.lo}; }
  };

  Share share(int table, int dim, ValueId of, int rank) const {
    expect(dim >= 0 && dim < int(logical_[of].size()), fmt::format("there is no dimension {} to cut", dim));
    const BoundaryTable& t = p_.tables[table];
    int64_t unit = unit_of(t, logical_[of][dim]);
    int at = p_.mesh.coordinate(rank, t.axis);
    const std::vector<int64_t>& bounds = t.bounds_of(p_.mesh, rank);
    return {{bounds[at] * unit, bounds[at + 1] * unit}, {bounds.front() * unit, bounds.back() * unit}};
  }

  LocalArray part(const Instruction& i, const LocalArray& whole, int dim, int table, ValueId of, int rank) const {
    const Share share = this->share(table, dim, of, rank);
    const int64_t extent = share.group.hi - share.group.lo;
    expect(whole.array.shape[dim] == extent && (extent == 0 || whole.offset[dim] == share.group.lo),
           fmt::format("{} needs dimension {} whole, but device {} holds {} of {} elements", name(i.opcode), dim, rank,
                       whole.array.shape[dim], extent));
    return taken(whole, dim, share.own);
  }

  /// Elements of a dimension of what is held.
  static LocalArray taken(const LocalArray& held, int dim, const Range& elements) {
    std::vector<Range> box = box_of(held.array.shape);
    box[dim] = {elements.lo - held.offset[dim], elements.hi - held.offset[dim]};
    LocalArray out{cut_out(held.array, box), held.offset};
    out.offset[dim] = elements.lo;
    return out;
  }

  LocalArray gathered(const Instruction& i, ValueId from, int rank) const {
    LocalArray out = local(from, rank);
    expect(i.dim >= 0 && i.dim < int(out.offset.size()), fmt::format("there is no dimension {} to gather", i.dim));
    const Range group = share(i.table, i.dim, from, rank).group;
    out.array.shape[i.dim] = group.hi - group.lo;
    out.offset[i.dim] = group.lo;
    out.array = Array(out.array.shape);
    for (int peer : p_.mesh.group(rank, i.axis)) {
      std::vector<Range> box = box_of(out.array.shape);
      box[i.dim] = share(i.table, i.dim, from, peer).within();
      const Array& block = local(from, peer).array;
      expect(block.shape == shape_of(box), fmt::format("device {} contributes {} where {} is expected", peer,
                                                       text(block.shape), text(shape_of(box))));
      each_element(out.array.shape, box, [&](size_t whole, size_t at) { out.array.values[whole] = block.values[at]; });
    }
    return out;
  }

  /// A device's part with what lies around it.
  LocalArray widened(const Instruction& i, ValueId from, int rank) const {
    const LocalArray whole = gathered(i, from, rank);
    const int64_t extent = logical_[from][i.dim];
    expect(whole.offset[i.dim] == 0 && whole.array.shape[i.dim] == extent,
           "a halo needs neighbours that hold all there is");
    return taken(whole, i.dim, with_halo(share(i.table, i.dim, from, rank).own, i.before, i.after, extent));
  }

  LocalArray reduced(const Instruction& i, ValueId from, int rank) const {
    LocalArray out = local(from, rank);
    std::vector<int> group = p_.mesh.group(rank, i.axis);
    std::fill(out.array.values.begin(), out.array.values.end(), identity(i.reduce));
    for (int peer : group) {
      const Array& theirs = local(from, peer).array;
      expect(theirs.shape == out.array.shape,
             fmt::format("devices {} and {} reduce tensors of different sizes, {} and {}", rank, peer,
                         text(out.array.shape), text(theirs.shape)));
      for (size_t e = 0; e < theirs.values.size(); ++e)
        out.array.values[e] = combine(i.reduce, out.array.values[e], theirs.values[e]);
    }
    if (i.reduce == ReduceOp::average)
      for (double& v : out.array.values) v /= double(group.size());
    return out;
  }

  const Program& reference_;
  const SpmdProgram& p_;
  const Bindings& leaves_;
  const EvaluationContext& context_;
  int devices_;
  std::vector<Shape> logical_;  ///< by value: shape of the whole tensor that was in fact computed
  SpmdExecution out_;
  int number_ = -1;
  NodeId node_ = -1;
};

/// Whether the ranks have the same coordinate on every axis over which the tensor is replicated.
bool same_replica(const SpmdProgram& program, const Placements& placements, int rank, int other) {
  for (size_t a = 0; a < placements.size(); ++a)
    if (placements[a].kind == Placement::Kind::replicated &&
        program.mesh.coordinate(rank, int(a)) != program.mesh.coordinate(other, int(a)))
      return false;
  return true;
}

}  // namespace

SpmdExecution execute(const Program& reference, const SpmdProgram& program, const Bindings& leaves,
                      const EvaluationContext& context) {
  return Execution(reference, program, leaves, context).run();
}

Array assemble(const Program& reference, const SpmdProgram& program, const SpmdExecution& execution, ValueId value,
               int replica) {
  const Value& claim = program.values.at(value);
  const Shape& shape = reference[claim.node].type.shape;
  std::optional<ReduceOp> reduce;
  for (const Placement& p : claim.placements)
    if (p.kind == Placement::Kind::partial) reduce = p.reduce;
  Placements own_parts = claim.placements;
  for (Placement& p : own_parts) p.before = p.after = 0;
  Array whole(shape, reduce ? identity(*reduce) : 0.0);
  for (int rank = 0; rank < program.mesh.device_count(); ++rank) {
    if (!same_replica(program, claim.placements, rank, replica) || !holds(program.mesh, claim.placements, rank))
      continue;
    if (!execution.holds(value, rank))
      throw ExecutionFault(
          fmt::format("{}: device {} holds nothing where the plan says it does", reference[claim.node].name, rank), -1,
          claim.node);
    std::vector<Range> box = local_ranges(program, claim.placements, shape, rank);
    const Array& part = execution.values.at(value).at(rank).array;
    if (part.shape != shape_of(box))
      throw ExecutionFault(fmt::format("{}: device {} holds {} where the plan says {}", reference[claim.node].name,
                                       rank, text(part.shape), text(shape_of(box))),
                           -1, claim.node);
    // What lies around a part is a neighbour's: it counts once.
    const std::vector<Range> own = local_ranges(program, own_parts, shape, rank);
    std::vector<Range> within;
    for (size_t d = 0; d < own.size(); ++d) within.push_back({own[d].lo - box[d].lo, own[d].hi - box[d].lo});
    const Array mine = cut_out(part, within);
    each_element(shape, own, [&](size_t at, size_t local) {
      whole.values[at] = reduce ? combine(*reduce, whole.values[at], mine.values[local]) : mine.values[local];
    });
  }
  return whole;
}

double replica_disagreement(const SpmdProgram& program, const SpmdExecution& execution, ValueId value) {
  double worst = 0;
  const Placements& placements = program.values.at(value).placements;
  const std::vector<LocalArray>& parts = execution.values.at(value);
  for (int rank = 0; rank < program.mesh.device_count(); ++rank) {
    int first = rank;
    for (size_t a = 0; a < placements.size(); ++a)
      if (placements[a].kind == Placement::Kind::replicated) first = program.mesh.group(first, int(a))[0];
    if (execution.holds(value, rank) != execution.holds(value, first)) return std::numeric_limits<double>::infinity();
    const std::vector<double>&mine = parts[rank].array.values, &theirs = parts[first].array.values;
    if (mine.size() != theirs.size()) return std::numeric_limits<double>::infinity();
    for (size_t e = 0; e < mine.size(); ++e)
      worst = std::max(worst, std::abs(mine[e] - theirs[e]) / (1 + std::abs(theirs[e])));
  }
  return worst;
}

StepResult run_spmd_step(const Program& reference, const SpmdProgram& program, const Bindings& leaves,
                         const EvaluationContext& context) {
  SpmdExecution execution = execute(reference, program, leaves, context);
  StepResult result{0, leaves};
  for (auto [target, value] : program.finals) result.leaves[target] = assemble(reference, program, execution, value);
  if (program.loss >= 0) result.loss = assemble(reference, program, execution, program.loss).values.at(0);
  return result;
}

StepResult run_reference_step(const Program& reference, const Bindings& leaves, const EvaluationContext& context) {
  std::vector<Array> values = interpret(reference, leaves, context);
  StepResult result{0, leaves};
  for (const Update& update : reference.updates) result.leaves[update.target] = values[update.value];
  if (reference.loss >= 0) result.loss = values[reference.loss].values.at(0);
  return result;
}

}  // namespace hetsynth
