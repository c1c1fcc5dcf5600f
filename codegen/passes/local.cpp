#include "codegen/passes/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "codegen/passes/access.h"
#include "dsl/base/error.h"
#include "dsl/ir/arithmetic.h"
#include "dsl/spmd/recomputation.h"

namespace hetsynth::codegen {

std::optional<FactorKind> LocalOp::reduction() const {
  for (const Factor& factor : factors)
    if (factor.reduced()) return factor.kind;
  return std::nullopt;
}

bool LocalOp::is_view() const {
  return !collective && !keeps && !follows_turn(output) && body.kind() == ExprKind::input && !reduction() &&
         !converts && !inputs[0].access.zero_outside;
}

int64_t LocalValue::count() const { return held ? part_elements(ranges) : 0; }

namespace {

/// A value that can be read through another: access to the root, whose "factors" are the dimensions of the value.
struct View {
  ValueId root;
  Access access;
  bool same_tensor = false;  ///< a part of the very tensor: equal global indices mean equal elements
};

Access identity_access(size_t rank) {
  Access access;
  for (size_t d = 0; d < rank; ++d) access.dims.push_back(index_by(int(d)));
  return access;
}

class Localizer {
 public:
  Localizer(const Program& reference, const SpmdProgram& program, int rank) : reference_(reference), program_(program) {
    out_.rank = rank;
    out_.first = first_made(program);
    for (const Value& value : program.values) {
      LocalValue local{value.node, {}, {}};
      if (value.node >= 0) {
        local.type = reference[value.node].type;
        local.ranges = local_ranges(program, value.placements, local.type.shape, rank);
        local.held = holds(program.mesh, value.placements, rank);
      }
      out_.values.push_back(local);
    }
    is_leaf_.assign(program.values.size(), false);
    is_defined_.assign(program.values.size(), false);
    for (ValueId leaf : program.leaves) {
      is_leaf_[leaf] = is_defined_[leaf] = true;
      leaf_of_.try_emplace(program.values[leaf].node, leaf);
    }
    for (const Instruction& instruction : program.instructions) is_defined_[instruction.result] = true;
  }

  LocalProgram run() {
    for (ValueId leaf : program_.leaves)
      if (held(leaf)) out_.leaves.push_back(leaf);
    find_carried();
    int loop = -1;
    for (const Instruction& instruction : program_.instructions) {
      const int own = loop_of(reference_, program_, instruction);
      if (own >= 0 && own != loop) begin_carries(own);
      loop = own;
      if (!carries_.count(instruction.result) && mine(instruction)) add(instruction);
    }
    resolve_results();
    remove_unused();
    pin();
    return std::move(out_);
  }

 private:
  void find_carried() {
    for (const TurnLoop& loop : reference_.loops) out_.loops.push_back({loop.turns, {}});
    for (const auto& [carry, next] : program_.carried)
      for (const Instruction& instruction : program_.instructions)
        if (instruction.opcode == Opcode::compute && instruction.node == carry && mine(instruction)) {
          out_.loops[size_t(reference_[carry].loop)].carried.push_back({instruction.result, next});
          carries_.insert(instruction.result);
          next_.insert(next);
        }
  }

  /// What a loop's carries are in its first turn is made before the loop.
  void begin_carries(int loop) {
    for (const Instruction& instruction : program_.instructions)
      if (carries_.count(instruction.result) && reference_[instruction.node].loop == loop) add(instruction);
  }
  bool held(ValueId value) const { return out_.values[size_t(value)].held; }
  bool mine(const Instruction& instruction) const { return takes_part(program_, instruction, out_.rank); }

  void add(const Instruction& instruction) {
    switch (instruction.opcode) {
      case Opcode::compute:
        return add_compute(instruction);
      case Opcode::slice:
        return add_slice(instruction);
      case Opcode::to_partial:
        return add_to_partial(instruction);
      default:
        return add_collective(instruction);
    }
  }

  /// What is made again belongs to the phase that wants it again: it must not move to where it was made first.
  Phase phase_of(ValueId result) const {
    const Phase phase = reference_[out_.values[result].node].phase;
    return again(result) ? std::max(phase, Phase::backward) : phase;
  }
  bool again(ValueId result) const { return out_.first_made(result) != result; }

  void add_compute(const Instruction& instruction) {
    const Node& node = reference_[instruction.node];
    LocalOp op;
    op.result = instruction.result;
    op.node = instruction.node;
    op.phase = phase_of(instruction.result);
    op.again = again(instruction.result);
    op.loop = carries_.count(op.result) ? -1 : node.loop;
    op.keeps = carries_.count(op.result) || next_.count(op.result);
    op.factors = node.space.factors;
    op.ranges = factor_ranges(program_, node.space, instruction.splits, out_.rank);
    op.output = normalise(node.space.output, op.ranges);
    op.first_draw = node.space.first_draw;
    op.draws_per_turn = node.space.draws_per_turn;
    std::vector<std::optional<Expr>> substitutes;
    for (size_t j = 0; j < instruction.operands.size(); ++j)
      substitutes.push_back(read(op, instruction.operands[j], node.space.inputs[j]));
    op.body = substitute_and_fold(node.body, substitutes);
    finish(std::move(op));
  }

  /// Adds the operand and gives the expression to use for it: an input of the local operator, or a constant.
  Expr read(LocalOp& op, ValueId value, const Access& access) {
    if (!held(value))
      throw UserError({.tag = "plan",
                       .message = fmt::format("rank {} is to read {}, which lies on another stage", out_.rank,
                                              program_.values[size_t(value)].name),
                       .mend = "ask `hetsynth verify` what is wrong with the plan"});
    Operand operand{value, access};
    if (auto view = views_.find(value); view != views_.end()) {
      std::optional<Access> composed = view->second.same_tensor ? access : compose(view->second.access, access);
      if (composed) operand = {view->second.root, *composed};
    }
    if (auto constant = constants_.find(operand.value); constant != constants_.end() && !operand.access.zero_outside)
      return constant->second;
    operand.access = normalise(operand.access, op.ranges);
    op.inputs.push_back(operand);
    return Expr::input(int(op.inputs.size()) - 1);
  }

  void finish(LocalOp op) {
    drop_unread_inputs(op);
    op.converts = !op.inputs.empty() && type_of(op.result).dtype != type_of(op.inputs[0].value).dtype;
    bool constant = op.body.kind() == ExprKind::constant && !op.reduction() && !op.keeps && !follows_turn(op.output);
    if (constant) constants_.emplace(op.result, op.body);
    if (follows_turn(op.output)) stacked_.insert(op.result);
    if (op.is_view()) remember_view(op);
    OneHot found{0, 0, 0.0};
    if (op.reduction() == FactorKind::sum && match_one_hot(op.body, &found)) {
      if (!mentions_factor(op.inputs[found.operand].access, found.factor)) op.one_hot = found;
    }
    out_.ops.push_back(std::move(op));
  }

  const TensorType& type_of(ValueId value) const { return out_.values[value].type; }

  void drop_unread_inputs(LocalOp& op) {
    std::vector<Operand> kept;
    std::vector<std::optional<Expr>> renumber;
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      renumber.push_back(Expr::input(int(kept.size())));
      if (mentions_input(op.body, int(j))) kept.push_back(op.inputs[j]);
    }
    op.body = substitute_and_fold(op.body, renumber);
    op.inputs = kept;
  }

  /// Results indexed by plain factors can be read through: each dimension stands for its factor.
  void remember_view(const LocalOp& op) {
    const Node& node = reference_[op.node];
    std::map<int, int> dim_of;
    for (size_t d = 0; d < node.space.output.dims.size(); ++d) {
      const DimIndex& index = node.space.output.dims[d];
      if (index.terms.empty() && index.offset == 0 && node.type.shape[d] == 1) continue;
      if (index.offset != 0 || index.terms.size() != 1) return;
      const IndexTerm& term = index.terms[0];
      if (!term.plain() || term.stride != 1 || dim_of.count(term.factor)) return;
      dim_of[term.factor] = int(d);
    }
    Access access = op.inputs[0].access;
    for (DimIndex& index : access.dims)
      for (IndexTerm& term : index.terms) {
        auto dim = dim_of.find(term.factor);
        if (dim == dim_of.end()) return;
        term.factor = dim->second;
      }
    views_[op.result] = View{op.inputs[0].value, access};
  }

  void add_slice(const Instruction& instruction) {
    LocalOp op = identity(instruction);
    ValueId source = instruction.operands[0];
    op.body = substitute_and_fold(Expr::input(0), {read(op, source, identity_access(op.factors.size()))});
    const bool crosses_turns = op.keeps;
    finish(std::move(op));
    if (!crosses_turns) same_tensor(instruction.result, source);
  }

  /// Reads of `value` may become reads of `source`, or of what source itself is a part of.
  void same_tensor(ValueId value, ValueId source) {
    auto view = views_.find(source);
    views_[value] = View{source, identity_access(out_.values[source].ranges.size()), true};
    if (view != views_.end()) views_[value] = view->second;
  }

  void add_to_partial(const Instruction& instruction) {
    LocalOp op = identity(instruction);
    bool keeps = program_.mesh.coordinate(out_.rank, instruction.axis) == instruction.root;
    op.body = keeps ? substitute_and_fold(Expr::input(0),
                                          {read(op, instruction.operands[0], identity_access(op.factors.size()))})
                    : Expr(0.0);
    const bool crosses_turns = op.keeps;
    finish(std::move(op));
    if (keeps && !crosses_turns) same_tensor(instruction.result, instruction.operands[0]);
  }

  /// The loop in whose turns a tensor is moved.
  int moved_in_loop(NodeId node) const { return stacked_dim(reference_[node].space) >= 0 ? -1 : reference_[node].loop; }

  /// An operator over exactly the elements this rank holds of the instruction's result.
  LocalOp identity(const Instruction& instruction) {
    const LocalValue& value = out_.values[instruction.result];
    LocalOp op;
    op.result = instruction.result;
    op.node = value.node;
    op.phase = phase_of(instruction.result);
    op.loop = moved_in_loop(value.node);
    op.keeps = next_.count(op.result) > 0;
    for (size_t d = 0; d < value.ranges.size(); ++d)
      op.factors.push_back({std::string(1, char('i' + d)), value.type.shape[d], FactorKind::parallel});
    op.ranges = value.ranges;
    op.output = normalise(identity_access(value.ranges.size()), op.ranges);
    return op;
  }

  /// Collectives and the runtime read row-major tensors; what a loop fills lies turn by turn, so that each turn writes
  /// one piece.
  ValueId in_one_piece(ValueId value) {
    const auto view = views_.find(value);
    return stacked_.count(view != views_.end() ? view->second.root : value) ? copy_of(value) : value;
  }

  ValueId copy_of(ValueId value) {
    Instruction copy;
    copy.result = ValueId(out_.values.size());
    out_.values.push_back(out_.values[value]);
    LocalOp op = identity(copy);
    op.keeps = true;
    op.phase = phase_of(value);
    op.inputs = {{value, op.output}};
    op.body = Expr::input(0);
    out_.ops.push_back(std::move(op));
    out_.copied[copy.result] = value;
    return copy.result;
  }

  void add_collective(const Instruction& instruction) {
    LocalOp op;
    op.result = instruction.result;
    op.node = out_.values[instruction.result].node;
    op.phase = phase_of(instruction.result);
    op.loop = moved_in_loop(op.node);
    op.keeps = next_.count(op.result) > 0;
    if (held(instruction.operands[0])) {
      const ValueId operand = in_one_piece(instruction.operands[0]);
      op.inputs = {{operand, identity_access(out_.values[operand].ranges.size())}};
    }
    op.collective = instruction;
    out_.ops.push_back(std::move(op));
  }

  void resolve_results() {
    for (const auto& final : program_.finals)
      if (held(leaf_of(final.first)) && held(final.second)) out_.finals.push_back(final);
    for (const auto& named : reference_.outputs) {
      ValueId value = readable_value(named.node);
      if (value >= 0 && held(value)) out_.outputs.push_back({named.node, as_in_the_step(value)});
    }
    if (program_.loss >= 0 && held(program_.loss)) out_.loss = as_in_the_step(program_.loss);
    for (auto& [target, value] : out_.finals) value = detach_from_leaf(target, in_one_piece(value));
  }

  /// What is read after the step: of a leaf that the step overwrites, or a view of one, a copy of what it was before.
  ValueId as_in_the_step(ValueId value) {
    ValueId root = value;
    for (bool shown = true; shown;) {
      const auto op = std::ranges::find(out_.ops, root, &LocalOp::result);
      shown = op != out_.ops.end() && op->is_view();
      if (shown) root = op->inputs[0].value;
    }
    const bool is_overwritten = std::ranges::any_of(
        out_.finals, [&](const auto& final) { return leaf_of(final.first) == root && final.second != root; });
    return is_overwritten ? copy_of(value) : in_one_piece(value);
  }

  /// The first value of the node that is not partial: if there is one, a replicated one, else one whose parts do not
  /// overlap. Where they do, ranks hold copies of the same elements.
  ValueId readable_value(NodeId node) const {
    ValueId found = -1;
    int best = 0;
    for (size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      if (value.node != node || !is_defined_[v]) continue;
      int fits = 3;
      for (const Placement& p : value.placements) {
        const bool partial = p.kind == Placement::Kind::partial, replicated = p.kind == Placement::Kind::replicated;
        fits = std::min(fits, partial ? 0 : p.overlaps() ? 1 : replicated ? 3 : 2);
      }
      if (fits > best) found = ValueId(v), best = fits;
    }
    return found;
  }

  /// A target whose new contents are another leaf, or a value that already is another target's, gets a copy of its own:
  /// storage of a leaf is then overwritten by exactly one value.
  ValueId detach_from_leaf(NodeId target, ValueId value) {
    ValueId leaf = leaf_of(target);
    const bool is_leaf = size_t(value) < is_leaf_.size() && is_leaf_[value];
    bool taken = !taken_finals_.insert({value, target}).second;
    if (value == leaf || (!is_leaf && !taken)) return value;
    Instruction copy;
    copy.result = ValueId(out_.values.size());
    out_.values.push_back(out_.values[leaf]);
    LocalOp op = identity(copy);
    op.phase = Phase::update;
    op.inputs = {{value, op.output}};
    op.body = Expr::input(0);
    out_.ops.push_back(std::move(op));
    return copy.result;
  }

  ValueId leaf_of(NodeId target) const {
    const auto leaf = leaf_of_.find(target);
    HETSYNTH_CHECK(leaf != leaf_of_.end(), "an update's target is a leaf");
    return leaf->second;
  }

  void remove_unused() {
    std::vector<bool> needed(out_.values.size(), false);
    if (out_.loss >= 0) needed[out_.loss] = true;
    for (const auto& entry : out_.finals) needed[entry.second] = true;
    for (const auto& entry : out_.outputs) needed[entry.second] = true;
    for (bool complete = false; !complete;) {
      for (size_t i = out_.ops.size(); i-- > 0;)
        // Every rank must meet in a collective, needed or not.
        if (needed[out_.ops[i].result] || out_.ops[i].collective)
          for (const Operand& operand : out_.ops[i].inputs) needed[operand.value] = true;
      complete = true;
      for (const LocalLoop& loop : out_.loops)
        for (const auto& [carry, next] : loop.carried)
          if (needed[carry] && !needed[next]) needed[next] = true, complete = false;
    }
    std::erase_if(out_.ops, [&](const LocalOp& op) { return !needed[op.result] && !op.collective; });
    for (LocalLoop& loop : out_.loops) std::erase_if(loop.carried, [&](const auto& c) { return !needed[c.first]; });
  }

  void pin() {
    out_.pinned.assign(out_.values.size(), false);
    for (ValueId leaf : out_.leaves) out_.pinned[leaf] = true;
    for (const auto& entry : out_.finals) out_.pinned[entry.second] = true;
    for (const auto& entry : out_.outputs) out_.pinned[entry.second] = true;
    if (out_.loss >= 0) out_.pinned[out_.loss] = true;
    for (const LocalLoop& loop : out_.loops)
      for (const auto& [carry, next] : loop.carried) out_.pinned[carry] = out_.pinned[next] = true;
    for (const LocalOp& op : out_.ops)
      if (op.collective) {
        out_.pinned[op.result] = true;
        for (const Operand& operand : op.inputs) out_.pinned[operand.value] = true;
      }
  }

  const Program& reference_;
  const SpmdProgram& program_;
  LocalProgram out_;
  std::vector<bool> is_leaf_, is_defined_;  ///< by value of the SPMD program
  std::map<NodeId, ValueId> leaf_of_;       ///< the first
  std::map<ValueId, View> views_;
  std::map<ValueId, Expr> constants_;
  std::map<ValueId, NodeId> taken_finals_;
  std::set<ValueId> stacked_;         ///< that a loop fills turn by turn
  std::set<ValueId> carries_, next_;  ///< what loops hand on: values of carries, and what these take over
};

std::optional<double> fold_constant(ExprKind kind, const std::vector<double>& a) {
  if (kind == ExprKind::select) return a[0] != 0 ? a[1] : a[2];
  if (a.empty()) return std::nullopt;
  return arithmetic(kind, a[0], a.size() > 1 ? a[1] : 0);
}

Expr fold(const Expr& e) {
  bool constant = !e.args().empty() && std::all_of(e.args().begin(), e.args().end(),
                                                   [](const Expr& arg) { return arg.kind() == ExprKind::constant; });
  if (constant) {
    std::vector<double> values;
    for (const Expr& arg : e.args()) values.push_back(arg.value());
    if (std::optional<double> value = fold_constant(e.kind(), values)) return Expr(*value);
  }
  switch (e.kind()) {
    case ExprKind::add:
      if (e.arg(0).is_constant(0)) return e.arg(1);
      return e.arg(1).is_constant(0) ? e.arg(0) : e;
    case ExprKind::sub:
      return e.arg(1).is_constant(0) ? e.arg(0) : e;
    case ExprKind::mul:
      if (e.arg(0).is_constant(1)) return e.arg(1);
      return e.arg(1).is_constant(1) ? e.arg(0) : e;
    case ExprKind::div:
      return e.arg(1).is_constant(1) ? e.arg(0) : e;
    case ExprKind::select:
      if (e.arg(0).kind() == ExprKind::constant) return e.arg(0).value() != 0 ? e.arg(1) : e.arg(2);
      return e;
    default:
      return e;
  }
}

}  // namespace

Expr substitute_and_fold(const Expr& body, const std::vector<std::optional<Expr>>& inputs) {
  if (body.kind() == ExprKind::input) {
    const std::optional<Expr>& replacement = inputs.at(body.index());
    return replacement ? *replacement : body;
  }
  if (body.args().empty()) return body;
  std::vector<Expr> args;
  for (const Expr& arg : body.args()) args.push_back(substitute_and_fold(arg, inputs));
  return fold(Expr(body.kind(), std::move(args)));
}

Address draw_number(const LocalOp& op, const Shape& shape) {
  Address out = address(op.output, op.ranges, std::vector<int64_t>(shape.size(), 0), row_major_strides(shape));
  out.constant += op.first_draw;
  out.per_turn += op.draws_per_turn;
  return out;
}

LocalProgram localize(const Program& reference, const SpmdProgram& program, int rank) {
  return Localizer(reference, program, rank).run();
}

}  // namespace hetsynth::codegen
