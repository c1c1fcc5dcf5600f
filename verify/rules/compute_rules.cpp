// The rule of compute instructions: which placement the result has, and the obligation that shows it.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/rules/digits.h"
#include "verify/rules/rules.h"
#include "verify/rules/summands.h"

namespace hetsynth {

namespace {

using Kind = Placement::Kind;

class Compute {
 public:
  Compute(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands, CutNumbers& cuts,
          std::optional<Premise> without)
      : s_(subject),
        i_(instruction),
        operands_(operands),
        cuts_(cuts),
        without_(without),
        node_(subject.node(instruction.node)),
        space_(node_.space) {}

  ComputeInference run() {
    ComputeInference out;
    if (!has_rule() || !match_operands() || !divide(out) || !meet()) {
      out.reason = reason_;
      return out;
    }
    read_operands(out);
    number_cuts(out.obligation);
    out.result = std::move(result_);
    return out;
  }

 private:
  bool refuse(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  /// Tests a premise of the rule: `why` says what contradicts it, nothing if it holds.
  template <typename Why>
  bool holds(Premise premise, const Why& why) {
    if (premise == without_) return true;
    std::string text = why();
    return text.empty() || refuse(std::move(text));
  }

  /// That the operator is of the form that obligations speak of.
  bool has_rule() {
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
      if (input_of_[j] >= 0) continue;
      input_of_[j] = int(j);
      const auto displaced = [&] {
        return fmt::format("{} needs {} as operand {}, but is given {}", node_.name, s_.node(node_.inputs[j]).name, j,
                           s_.node(operands_[j].node).name);
      };
      if (!holds(Premise::operands_are_inputs, displaced)) return false;
    }
    return true;
  }

  /// What every axis divides, and how the result is held then.
  bool divide(ComputeInference& out) {
    out.obligation.body = node_.body;
    for (const Factor& f : space_.factors) out.obligation.factors.push_back({f.kind, 0, whole, whole});
    out.obligation.output = space_.output.dims;
    if (follows_turn(space_)) out.obligation.turns = s_.reference.turns(i_.node);
    result_ = Held{i_.node, Placements(size_t(s_.axis_count()))};
    std::vector<int> tables(size_t(s_.axis_count()), -1);
    for (int a = 0; a < s_.axis_count(); ++a) {
      if (i_.splits[a].factor >= 0) tables[a] = i_.splits[a].table;
      if (!axis(a, out, result_.placements[a])) return false;
    }
    const auto not_parts = [&] {
      const std::string why = circular(s_.program, tables);
      return why.empty() ? "" : fmt::format("{} is divided over several axes: {}", node_.name, why);
    };
    if (!holds(Premise::tables_not_circular, not_parts)) return false;
    // The premises leave no result that cannot be held; whatever the tables are, it is looked at all the same.
    const std::string misfit = unfit(s_, node_.type.shape, result_.placements);
    return misfit.empty() || refuse(fmt::format("{}: {}", node_.name, misfit));
  }

  /// What the axis divides, and the placement of the result over it.
  bool axis(int a, ComputeInference& out, Placement& result) {
    const Split& split = i_.splits[a];
    if (split.factor >= 0 && !may_be_divided(split)) return false;
    if (s_.trivial(a)) return true;
    for (const Held& operand : operands_)
      if (!holds(Premise::inputs_on_stage, [&] { return unavailable(a, operand.placements[a], split, operand.node); }))
        return false;
    if (split.stage >= 0) {
      result = Placement::stage(split.stage);
      return true;
    }
    PartialInputs partial;
    for (size_t j = 0; j < operands_.size(); ++j) {
      const Placement& p = operands_[j].placements[a];
      if (p.kind != Kind::partial) continue;
      const auto mixed = [&] {
        if (partial.inputs.empty() || partial.reduce == p.reduce) return std::string();
        return fmt::format("{} mixes partial sums and partial maxima over axis {}", node_.name, s_.axis(a).name);
      };
      if (!holds(Premise::one_reduction_on_axis, mixed)) return false;
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

  /// That the split has a meaning: parts of whole steps, of a factor that has parts.
  bool may_be_divided(const Split& split) {
    const BoundaryTable& table = s_.program.tables.at(split.table);
    const Factor& factor = space_.factors.at(split.factor);
    if (factor.size % table.extent != 0)
      return refuse(fmt::format("table {} of {} units does not divide factor {} ({}) of {}", table.name, table.extent,
                                factor.name, factor.size, node_.name));
    return factor.kind != FactorKind::whole ||
           refuse(fmt::format("factor {} of {} must not be divided", factor.name, node_.name));
  }

  /// A stage reads what it holds alone and what every device holds; nothing else reads what one stage holds alone. Says
  /// what is read and not there.
  std::string unavailable(int a, const Placement& held, const Split& split, NodeId operand) const {
    const std::string& tensor = s_.node(operand).name;
    if (split.stage >= 0) {
      if (held.kind == Kind::replicated || held == Placement::stage(split.stage)) return "";
      return fmt::format("{} is computed by stage {} of axis {} alone, but {} is {}", node_.name, split.stage,
                         s_.axis(a).name, tensor, describe(s_, held, a));
    }
    if (held.kind != Kind::stage) return "";
    return fmt::format("{} is computed on every device of axis {}, but {} is {}", node_.name, s_.axis(a).name, tensor,
                       describe(s_, held, a));
  }

  bool divided(int a, const Split& split, bool partial, ComputeInference& out, Placement& result) {
    FactorRun& run = out.obligation.factors[split.factor];
    const Factor& factor = space_.factors[split.factor];
    const auto open = [&] {
      if (!partial) return std::string();
      return fmt::format("{} is partial over axis {}, over which {} is divided",
                         s_.node(operands_[partial_operand_].node).name, s_.axis(a).name, node_.name);
    };
    if (!holds(Premise::open_axes_undivided, open)) return false;
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
    // Where no dimension begins with the factor, the parts are taken for those of the one that mentions it.
    int mentions = 0;
    for (size_t d = 0; d < space_.output.dims.size(); ++d) {
      const std::vector<IndexTerm>& digits = space_.output.dims[d].terms;
      for (size_t t = 0; t < digits.size(); ++t) {
        if (digits[t].factor != split.factor) continue;
        mentions = int(d);
        if (t > 0) continue;
        result = Placement::sharded(int(d), table);
        return true;
      }
    }
    result = Placement::sharded(mentions, table);
    return holds(Premise::parts_connected, [&] {
      return fmt::format("dividing factor {} of {} does not cut its result into connected parts", factor.name,
                         node_.name);
    });
  }

  /// That the summands of the operands meet as the obligation takes it, and along which axes those of the result vary.
  bool meet() {
    const DividedReduction reduction = divided_reduction(s_, i_);
    result_.varying = varying_summands(operands_, reduction);
    settle(s_, result_);
    const auto among = [&](const std::string& why) {
      return why.empty() ? "" : fmt::format("in {}, {}", node_.name, why);
    };
    return holds(Premise::summands_meet_copies, [&] { return among(summands_that_differ(s_, operands_)); }) &&
           holds(Premise::one_owner_of_points,
                 [&] { return among(points_of_several_owners(s_, operands_, reduction)); }) &&
           holds(Premise::one_owner_of_summands, [&] { return owners_differ(s_, result_); });
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
      for (size_t d = 0; d < read.dims.size(); ++d)
        if (const Placement* part = innermost_cut(operands_[j], int(d))) hold(read.dims[d], *part);
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

  /// The placement that says which part of a dimension a device holds: of two that cut it, the one that divides the
  /// other's parts, whose axis comes later (form is checked: flaw_of, unfit).
  static const Placement* innermost_cut(const Held& operand, int dim) {
    const Placement* part = nullptr;
    for (const Placement& p : operand.placements)
      if (p.kind == Kind::sharded && p.dim == dim) part = &p;
    return part;
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
  const std::optional<Premise> without_;
  const Node& node_;
  const Space& space_;
  std::vector<int> input_of_;
  int partial_operand_ = -1;
  Held result_;
  std::string reason_;
};

}  // namespace

ComputeInference infer_compute(const Subject& subject, const Instruction& instruction,
                               const std::vector<Held>& operands, CutNumbers& cuts, std::optional<Premise> without) {
  return Compute(subject, instruction, operands, cuts, without).run();
}

}  // namespace hetsynth
