// The rule of compute instructions: which placement the result has, and the obligation that shows it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/digits.h"
#include "verify/rules.h"

namespace hetsynth {

namespace {

using Kind = Placement::Kind;

class Compute {
 public:
  Compute(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands, CutNumbers& cuts)
      : s_(subject),
        i_(instruction),
        operands_(operands),
        cuts_(cuts),
        node_(subject.node(instruction.node)),
        space_(node_.space) {}

  ComputeInference run() {
    ComputeInference out;
    if (!well_formed() || !match_operands()) {
      out.reason = reason_;
      return out;
    }
    out.obligation.body = node_.body;
    for (const Factor& f : space_.factors) out.obligation.factors.push_back({f.kind, 0, whole, whole});
    out.obligation.output = space_.output.dims;
    if (follows_turn(space_)) out.obligation.turns = s_.reference.turns(i_.node);
    Held result{i_.node, Placements(size_t(s_.axis_count()))};
    std::vector<int> tables(size_t(s_.axis_count()), -1);
    for (int a = 0; a < s_.axis_count(); ++a) {
      if (i_.splits[a].factor >= 0) tables[a] = i_.splits[a].table;
      if (axis(a, out, result.placements[a])) continue;
      out.reason = reason_;
      return out;
    }
    if (std::string why = circular(s_.program, tables); !why.empty()) {
      out.reason = fmt::format("{} is divided over several axes: {}", node_.name, why);
      return out;
    }
    if (std::string misfit = unfit(s_, node_.type.shape, result.placements); !misfit.empty()) {
      out.reason = fmt::format("{}: {}", node_.name, misfit);
      return out;
    }
    read_operands(out);
    number_cuts(out.obligation);
    out.result = std::move(result);
    return out;
  }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  bool well_formed() {
    bool fits = space_.inputs.size() == node_.inputs.size() &&
                writes_once(space_, node_.type.shape, s_.reference.turns(i_.node));
    for (size_t j = 0; fits && j < space_.inputs.size(); ++j)
      fits = space_.inputs[j].dims.size() == s_.node(node_.inputs[j]).type.shape.size();
    return fits || refuse(fmt::format("the iteration space of {} is of a form that has no proof rule", node_.name));
  }

  /// Which input of the node each operand stands for: its own place, or another of equal access and shape (commuted
  /// operands).
  bool match_operands() {
    std::vector<bool> taken(node_.inputs.size(), false);
    input_of_.assign(operands_.size(), -1);
    for (size_t j = 0; j < operands_.size(); ++j)
      if (s_.same(operands_[j].node, node_.inputs[j])) input_of_[j] = int(j), taken[j] = true;
    for (size_t j = 0; j < operands_.size(); ++j) {
      for (size_t k = 0; input_of_[j] < 0 && k < taken.size(); ++k) {
        bool fits = !taken[k] && s_.same(operands_[j].node, node_.inputs[k]) && space_.inputs[j] == space_.inputs[k] &&
                    s_.node(node_.inputs[j]).type.shape == s_.node(node_.inputs[k]).type.shape;
        if (fits) input_of_[j] = int(k), taken[k] = true;
      }
      if (input_of_[j] < 0)
        return refuse(fmt::format("{} needs {} as operand {}, but is given {}", node_.name,
                                  s_.node(node_.inputs[j]).name, j, s_.node(operands_[j].node).name));
    }
    return true;
  }

  /// What the axis divides, and the placement of the result over it.
  bool axis(int a, ComputeInference& out, Placement& result) {
    const Split& split = i_.splits[a];
    if (split.factor >= 0) {
      const BoundaryTable& table = s_.program.tables.at(split.table);
      const Factor& factor = space_.factors.at(split.factor);
      if (factor.size % table.extent != 0)
        return refuse(fmt::format("table {} of {} units does not divide factor {} ({}) of {}", table.name, table.extent,
                                  factor.name, factor.size, node_.name));
      if (factor.kind == FactorKind::whole)
        return refuse(fmt::format("factor {} of {} must not be divided", factor.name, node_.name));
    }
    if (s_.trivial(a)) return true;
    for (const Held& operand : operands_)
      if (!available(a, operand.placements[a], split, operand.node)) return false;
    if (split.stage >= 0) {
      result = Placement::stage(split.stage);
      return true;
    }
    PartialInputs partial;
    for (size_t j = 0; j < operands_.size(); ++j) {
      const Placement& p = operands_[j].placements[a];
      if (p.kind != Kind::partial) continue;
      if (!partial.inputs.empty() && partial.reduce != p.reduce)
        return refuse(
            fmt::format("{} mixes partial sums and partial maxima over axis {}", node_.name, s_.axis(a).name));
      partial.reduce = p.reduce;
      partial.inputs.insert(input_of_[j]);
      partial_operand_ = int(j);
    }
    if (split.factor >= 0) return divided(a, split, !partial.inputs.empty(), out, result);
    if (partial.inputs.empty()) return true;
    result = Placement::partial(partial.reduce);
    bool sum = partial.reduce == ReduceOp::sum;
    out.lemmas.insert(sum ? "additive_body" : "max_body");
    if (space_.reduction()) out.lemmas.insert({sum ? "sum_exchange" : "max_exchange", "sum_additive"});
    out.obligation.partial.push_back(std::move(partial));
    return true;
  }

  /// A stage reads what it holds alone and what every device holds; nothing else reads what one stage holds alone.
  bool available(int a, const Placement& held, const Split& split, NodeId operand) {
    const std::string& tensor = s_.node(operand).name;
    if (split.stage >= 0) {
      if (held.kind == Kind::replicated || held == Placement::stage(split.stage)) return true;
      return refuse(fmt::format("{} is computed by stage {} of axis {} alone, but {} is {}", node_.name, split.stage,
                                s_.axis(a).name, tensor, describe(s_, held, a)));
    }
    if (held.kind != Kind::stage) return true;
    return refuse(fmt::format("{} is computed on every device of axis {}, but {} is {}", node_.name, s_.axis(a).name,
                              tensor, describe(s_, held, a)));
  }

  bool divided(int a, const Split& split, bool partial, ComputeInference& out, Placement& result) {
    FactorRun& run = out.obligation.factors[split.factor];
    const Factor& factor = space_.factors[split.factor];
    if (partial)
      return refuse(fmt::format("{} is partial over axis {}, over which {} is divided",
                                s_.node(operands_[partial_operand_].node).name, s_.axis(a).name, node_.name));
    int table = s_.table_of.at(split.table);
    const Cut part = cut(table, factor.size);
    if (run.executed != whole) lies_in(out, part, run.executed);
    run.executed = run.claimed = part;
    if (factor.reduced()) {
      bool sum = factor.kind == FactorKind::sum;
      result = Placement::partial(sum ? ReduceOp::sum : ReduceOp::max);
      out.lemmas.insert(sum ? "sum_of_boxes" : "max_of_boxes");
      return true;
    }
    for (size_t d = 0; d < space_.output.dims.size(); ++d) {
      const std::vector<IndexTerm>& digits = space_.output.dims[d].terms;
      if (!digits.empty() && digits[0].factor == split.factor) {
        result = Placement::sharded(int(d), table);
        return true;
      }
    }
    return refuse(
        fmt::format("dividing factor {} of {} does not cut its result into connected parts", factor.name, node_.name));
  }

  /// A second axis divides the parts of the first further (form is checked: flaw_of, unfit).
  void lies_in(ComputeInference& out, Cut inner, Cut outer) const {
    out.obligation.nested.push_back({inner, outer});
    out.lemmas.insert("nested_parts");
  }

  Cut cut(int table, int64_t digit_size) {
    int64_t unit = digit_size / s_.parts[table];
    return cuts_.try_emplace({table, unit}, int(cuts_.size())).first->second;
  }

  void read_operands(ComputeInference& out) {
    for (size_t j = 0; j < operands_.size(); ++j) {
      const Access& access = space_.inputs[j];
      const Shape& shape = s_.node(operands_[j].node).type.shape;
      OperandRead read{{}, access.zero_outside, input_of_[j]};
      for (size_t d = 0; d < access.dims.size(); ++d) read.dims.push_back(dim_read(access.dims[d], shape[d]));
      for (const Placement& p : operands_[j].placements)
        if (p.kind == Kind::sharded) hold(read.dims[p.dim], p);
      for (const DimRead& dim : read.dims) {
        if (dim.digits && dim.index.terms.size() > 1) out.lemmas.insert("mixed_radix");
        // Where sizes count as numbers, the factors that run there have theirs.
        for (const IndexTerm& t : dim.index.terms)
          if (!dim.digits) out.obligation.factors[t.factor].size = space_.factors[t.factor].size;
      }
      out.obligation.operands.push_back(std::move(read));
    }
    for (const DimIndex& dim : space_.output.dims)
      if (dim.terms.size() > 1) out.lemmas.insert("mixed_radix");
    if (auto reduction = space_.reduction())
      out.lemmas.insert(*reduction == FactorKind::sum ? "sum_congruence" : "max_congruence");
  }

  DimRead dim_read(const DimIndex& index, int64_t extent) const {
    return DimRead{are_digits(space_, index, extent), index, extent, whole};
  }

  /// Records what a device holds of the dimension: a range of the outermost digit if the table cuts there, else a range
  /// of indices, in steps of the outermost term where the table cuts at these.
  void hold(DimRead& dim, const Placement& part) {
    const int table = part.table;
    if (part.overlaps()) dim.digits = false;
    dim.before = part.before, dim.after = part.after;
    int64_t stride = dim.digits ? outer_stride(space_, dim.index) : 1;
    int64_t unit = dim.extent / s_.parts[table];
    if (dim.index.terms.empty() || unit % stride != 0) dim.digits = false, stride = 1;
    if (!dim.digits && !dim.index.terms.empty()) {
      const IndexTerm& outer = dim.index.terms[0];
      if (outer.plain() && outer.stride > 1 && unit % outer.stride == 0) dim.scale = stride = outer.stride;
    }
    dim.held = cut(table, dim.extent / stride);
  }

  const Subject& s_;
  const Instruction& i_;
  const std::vector<Held>& operands_;
  CutNumbers& cuts_;
  const Node& node_;
  const Space& space_;
  std::vector<int> input_of_;
  int partial_operand_ = -1;
  std::string reason_;
};

/// Where windows slide along the split factor: that they reach further than what a device holds. Empty if they are not
/// the reason.
std::string outside_of_halo(const Subject& s, const Node& node, const Held& operand, int position, int axis,
                            const Split& split) {
  const std::optional<WindowCut> windows =
      window_cut_of(node.space, node.space.inputs[size_t(position)], s.node(operand.node).type.shape, split.factor);
  const Placement& held = operand.placements[size_t(axis)];
  if (!windows || windows->dim != held.dim || s.table_of.at(split.table) != held.table) return "";
  return fmt::format(
      "{} reads {} elements of {} before each part over axis {} and {} after it, but devices hold {} and {}", node.name,
      windows->before, s.node(operand.node).name, s.axis(axis).name, windows->after, held.before, held.after);
}

std::string explain_bounds(const Subject& s, const Instruction& i, const Held& operand, int position) {
  const Node& node = s.node(i.node);
  const std::string& tensor = s.node(operand.node).name;
  for (int a = 0; a < s.axis_count(); ++a) {
    const Placement& p = operand.placements[a];
    if (p.kind != Kind::sharded) continue;
    const Split& split = i.splits[a];
    const std::string& axis = s.axis(a).name;
    std::optional<FactorCut> cut;
    if (split.factor >= 0)
      cut = cut_of(node.space, node.space.inputs[position], s.node(operand.node).type.shape, split.factor);
    if (split.factor >= 0 && !cut)
      if (std::string why = outside_of_halo(s, node, operand, position, a, split); !why.empty()) return why;
    if (!cut)
      return fmt::format("{} is needed whole over axis {} by {} but is cut in dimension {}", tensor, axis, node.name,
                         p.dim);
    if (cut->dim != p.dim)
      return fmt::format("{} is needed cut in dimension {} over axis {} by {} but is cut in dimension {}", tensor,
                         cut->dim, axis, node.name, p.dim);
    if (s.table_of.at(split.table) != p.table)
      return fmt::format("{} is cut by table {} over axis {}, but {} runs over the parts of table {}", tensor,
                         s.program.tables[p.table].name, axis, node.name, s.program.tables[split.table].name);
  }
  return fmt::format("{} reads {} outside of what a device holds", node.name, tensor);
}

/// Whether a value standing for the tensor is ever summed (or otherwise reduced) over the axis.
bool ever_reduced(const Subject& s, NodeId tensor, int axis) {
  return std::any_of(s.program.instructions.begin(), s.program.instructions.end(), [&](const Instruction& i) {
    bool reduces = i.opcode == Opcode::all_reduce || i.opcode == Opcode::reduce_scatter;
    return reduces && i.axis == axis && s.program.values[i.operands[0]].node == tensor;
  });
}

std::string explain_additive(const Subject& s, const Instruction& i, const std::vector<Held>& operands, int entry) {
  for (int a = 0; a < s.axis_count(); ++a)
    for (const Held& operand : operands) {
      if (operand.placements[a].kind != Kind::partial) continue;
      if (entry-- > 0) break;
      const std::string& tensor = s.node(operand.node).name;
      if (!ever_reduced(s, operand.node, a))
        return fmt::format("{} is partial over axis {} and never reduced, but {} is not additive in it", tensor,
                           s.axis(a).name, s.node(i.node).name);
      return fmt::format(
          "{} is partial over axis {} where {}, which is not additive in it, reads it before it is reduced", tensor,
          s.axis(a).name, s.node(i.node).name);
    }
  return "";
}

/// The first operand that stands in the place of another one.
std::optional<size_t> displaced_operand(const Subject& s, const Instruction& i, const std::vector<Held>& operands) {
  const std::vector<NodeId>& inputs = s.node(i.node).inputs;
  for (size_t j = 0; j < operands.size(); ++j)
    if (!s.same(operands[j].node, inputs[j])) return j;
  return std::nullopt;
}

}  // namespace

ComputeInference infer_compute(const Subject& subject, const Instruction& instruction,
                               const std::vector<Held>& operands, CutNumbers& cuts) {
  return Compute(subject, instruction, operands, cuts).run();
}

std::string explain(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands,
                    const ObligationResult& result) {
  const std::string& tensor = subject.node(instruction.node).name;
  if (result.answer == smt::Answer::vacuous)
    return fmt::format("the premises of the proof for {} contradict each other", tensor);
  if (result.answer == smt::Answer::unknown) return fmt::format("the solver found no answer for {}", tensor);
  switch (result.failed) {
    case ObligationPart::bounds:
      return explain_bounds(subject, instruction, operands.at(size_t(result.operand)), result.operand);
    case ObligationPart::additive:
      return explain_additive(subject, instruction, operands, result.operand);
    default:
      if (std::optional<size_t> j = displaced_operand(subject, instruction, operands))
        return fmt::format(
            "{} takes {} as operand {}, where the program has {}, and is not the same with them exchanged", tensor,
            subject.node(operands[*j].node).name, *j, subject.node(subject.node(instruction.node).inputs[*j]).name);
      return fmt::format("the parts of {} that the devices compute are not those of the reference", tensor);
  }
}

}  // namespace hetsynth
