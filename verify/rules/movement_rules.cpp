// Rules of collectives and local movements. Each says what the devices of one axis hold before and after, at an
// arbitrary index.
#include <fmt/format.h>

#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan_text.h"
#include "verify/rules/rules.h"

namespace hetsynth {

namespace {

using Kind = Placement::Kind;

class Movement {
 public:
  Movement(const Subject& subject, const Instruction& instruction, const Held& operand)
      : s_(subject), i_(instruction), operand_(operand), held_(operand.placements[instruction.axis]) {}

  Inference run(std::optional<Premise> without) {
    if (std::string why = uncut(); !why.empty()) return refuse(fmt::format("{} of {}: {}", opcode(), tensor(), why));
    result_ = conclusion();
    settle(s_, result_);
    for (Premise premise : rule_of(i_.opcode).premises) {
      if (premise == without) continue;
      if (std::string why = unmet(premise); !why.empty()) return refuse(std::move(why));
    }
    result_.placements = normalised(s_, result_.placements);
    return {result_, "", lemmas()};
  }

 private:
  const std::string& tensor() const { return s_.node(operand_.node).name; }
  const std::string& axis() const { return s_.axis(i_.axis).name; }
  std::string_view opcode() const { return name(i_.opcode); }
  static Inference refuse(std::string reason) { return {std::nullopt, std::move(reason), {}}; }

  /// What the tables of the instruction cannot cut; empty if they can.
  std::string uncut() const {
    const Shape& shape = s_.node(operand_.node).type.shape;
    const OpcodeFields fields = fields_of(i_.opcode);
    std::string why = fields.cut ? uncuttable(s_, shape, i_.dim, i_.table) : "";
    return why.empty() && fields.to_cut ? uncuttable(s_, shape, i_.to_dim, i_.to_table) : why;
  }

  /// Over an axis of one device every movement gives back its operand.
  bool alone() const { return s_.trivial(i_.axis); }
  bool varies() const { return operand_.varying.count(i_.axis) > 0; }
  Placement cut(int dim, int table) const { return Placement::sharded(dim, s_.table_of.at(size_t(table))); }

  // ---- what the result holds ----

  Held conclusion() const {
    Held result = operand_;
    result.placements[size_t(i_.axis)] = becomes();
    if (i_.opcode == Opcode::slice) return result;
    if (i_.opcode == Opcode::all_reduce || i_.opcode == Opcode::reduce_scatter) {
      // Where nothing is open any more, settle() forgets what varied.
      if (held_.kind != Kind::partial) result.varying.erase(i_.axis);
      return result;
    }
    if (!result.varying.erase(i_.axis)) return result;
    // The summand is now that of the element's owner, whom a table that varies lets depend on another coordinate.
    const bool gathers = i_.opcode == Opcode::all_gather || i_.opcode == Opcode::all_to_all;
    if (gathers && varies_along(source()) >= 0) result.varying.insert(varies_along(source()));
    return result;
  }

  Placement becomes() const {
    switch (i_.opcode) {
      case Opcode::slice:
      case Opcode::reduce_scatter:
        return cut(i_.dim, i_.table);
      case Opcode::all_to_all:
        return cut(i_.to_dim, i_.to_table);
      case Opcode::halo_exchange:
        return Placement::overlapping(i_.dim, s_.table_of.at(size_t(i_.table)), i_.before, i_.after);
      case Opcode::to_partial:
        return Placement::partial(ReduceOp::sum);
      case Opcode::send:
        return Placement::stage(i_.to);
      default:
        return Placement::replicated();
    }
  }

  const BoundaryTable& source() const { return s_.program.tables.at(size_t(i_.table)); }

  std::set<std::string> lemmas() const {
    std::set<std::string> out;
    if (i_.opcode == Opcode::all_gather || i_.opcode == Opcode::all_to_all || i_.opcode == Opcode::halo_exchange)
      out = {"owner_exists", "owner_unique", "displacement"};
    if (i_.opcode == Opcode::to_partial) out = {"one_holder"};
    const bool reduces = i_.opcode == Opcode::all_reduce || i_.opcode == Opcode::reduce_scatter;
    if (reduces && !alone() && held_.kind != Kind::partial) out.insert(lemma_of_copies());
    for (const Placement& along : {held_, becomes()})
      if (along.kind == Kind::sharded && nests(s_.program.tables[size_t(along.table)])) out.insert("nested_parts");
    return out;
  }

  /// Summands that differ along the axis are reduced in another order: first over the axis, then over what is open.
  std::string lemma_of_copies() const {
    if (varies()) return i_.reduce == ReduceOp::average ? "sum_exchange" : "max_exchange";
    return i_.reduce == ReduceOp::average ? "copies_average" : "copies_extremum";
  }

  // ---- its premises ----

  /// Why the premise does not hold; empty if it does.
  std::string unmet(Premise premise) const {
    switch (premise) {
      case Premise::whole_on_axis:
        if (alone() || held_.kind == Kind::replicated) return "";
        return fmt::format("{} is {} where {} needs it replicated", tensor(), how(), opcode());
      case Premise::whole_or_on_root:
        return off_root();
      case Premise::on_root:
        if (held_ == Placement::stage(i_.root)) return "";
        return fmt::format("{} is {}, but is sent from stage {}", tensor(), how(), i_.root);
      case Premise::source_cut_so:
        return cut_otherwise();
      case Premise::source_can_be_cut_so:
        return alone() ? unheld(cut(i_.dim, i_.table)) : "";
      case Premise::something_everywhere:
        return on_stage();
      case Premise::one_part_per_group:
        return other_parts_meet();
      case Premise::reduction_fits:
        return misfit_of_reduction();
      case Premise::one_owner_of_summands:
        return owners_differ(s_, result_);
      default:
        return unheld(becomes());
    }
  }

  std::string how() const { return describe(s_, held_, i_.axis); }

  /// Why the tensor cannot be held as the operand is, but so over the instruction's axis.
  std::string unheld(const Placement& along) const {
    Placements placements = operand_.placements;
    placements[size_t(i_.axis)] = along;
    const std::string misfit = unfit(s_, s_.node(operand_.node).type.shape, placements);
    return misfit.empty() ? "" : fmt::format("{} of {}: {}", opcode(), tensor(), misfit);
  }

  std::string off_root() const {
    if (alone() || held_.kind == Kind::replicated || held_ == Placement::stage(i_.root)) return "";
    if (i_.opcode == Opcode::to_partial)
      return fmt::format("{} is {} where only a replicated value can be left to one device", tensor(), how());
    if (held_.kind == Kind::stage)
      return fmt::format("{} is {}, but stage {} is to broadcast it", tensor(), how(), i_.root);
    return fmt::format("{} is {}: a broadcast would put one device's part in place of the others'", tensor(), how());
  }

  std::string cut_otherwise() const {
    const Placement expected = cut(i_.dim, i_.table);
    if (alone() || held_ == expected) return "";
    if (std::string why = on_stage(); !why.empty()) return why;
    return fmt::format("{} is {} where {} expects it {}", tensor(), how(), opcode(), describe(s_, expected, i_.axis));
  }

  /// Devices of other stages hold nothing to meet with.
  std::string on_stage() const {
    if (held_.kind != Kind::stage) return "";
    return fmt::format("{} is {}: in {} it would meet devices that hold nothing", tensor(), how(), opcode());
  }

  /// What devices of one group hold must be the same part but for the instruction's own axis. A slice and a summand
  /// left to one device are local, unless the summand comes from the one stage that holds it.
  std::string other_parts_meet() const {
    if (!communicates(i_.opcode) && held_.kind != Kind::stage) return "";
    for (int a = 0; a < s_.axis_count(); ++a) {
      const Placement& p = operand_.placements[size_t(a)];
      if (a == i_.axis || p.kind != Kind::sharded) continue;
      const BoundaryTable& table = s_.program.tables[size_t(p.table)];
      if (varies_along(table) == i_.axis)
        return fmt::format(
            "{} is cut over axis {} by table {}, which differs along axis {}: in {} over {} different "
            "parts of it would meet",
            tensor(), s_.axis(a).name, table.name, axis(), opcode(), axis());
    }
    return "";
  }

  /// Every device, or the one that keeps the part, sees the reduction over the axis: of what is open over it, or of
  /// what the devices have in common. Summands that differ along the axis (Held::varying) are no copies, but the
  /// average of sums is a sum of averages, and so are maxima.
  std::string misfit_of_reduction() const {
    if (alone()) return "";
    if (held_.kind == Kind::sharded)
      return fmt::format("{} is {}: {} would combine different parts of it", tensor(), how(), opcode());
    if (held_.kind == Kind::partial) {
      if (held_.reduce == i_.reduce) return "";
      return fmt::format("{} is {}, but {} takes the {} over axis {}", tensor(), how(), opcode(), name(i_.reduce),
                         axis());
    }
    if (varies()) {
      const ReduceOp open = *operand_.open_reduction();
      if (open == ReduceOp::sum ? i_.reduce == ReduceOp::average : i_.reduce == open) return "";
      return fmt::format("the summands of {} differ along axis {}: {} by {} does not give summands of it", tensor(),
                         axis(), opcode(), name(i_.reduce));
    }
    if (i_.reduce == ReduceOp::average || i_.reduce == ReduceOp::max || i_.reduce == ReduceOp::min) return "";
    return fmt::format("{} is already whole on every device of axis {}: {} by {} counts it once per device", tensor(),
                       axis(), opcode(), name(i_.reduce));
  }

  const Subject& s_;
  const Instruction& i_;
  const Held& operand_;
  const Placement held_;
  Held result_;
};

}  // namespace

Inference infer_movement(const Subject& subject, const Instruction& instruction, const Held& operand,
                         std::optional<Premise> without) {
  return Movement(subject, instruction, operand).run(without);
}

}  // namespace hetsynth
