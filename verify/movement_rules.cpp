// Rules of collectives and local movements. Each says what the devices of one axis hold before and after, at an
// arbitrary index.
#include <fmt/format.h>

#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan_text.h"
#include "verify/rules.h"

namespace hetsynth {

namespace {

using Kind = Placement::Kind;

class Movement {
 public:
  Movement(const Subject& subject, const Instruction& instruction, const Held& operand)
      : s_(subject), i_(instruction), operand_(operand), held_(operand.placements[instruction.axis]) {}

  Inference run() {
    const Shape& shape = s_.node(operand_.node).type.shape;
    const OpcodeFields fields = fields_of(i_.opcode);
    std::string misfit = fields.cut ? uncuttable(s_, shape, i_.dim, i_.table) : "";
    if (misfit.empty() && fields.to_cut) misfit = uncuttable(s_, shape, i_.to_dim, i_.to_table);
    if (!misfit.empty()) return refuse(fmt::format("{} of {}: {}", name(i_.opcode), tensor(), misfit));
    if (std::string why = meets_other_parts(); !why.empty()) return refuse(why);
    switch (i_.opcode) {
      case Opcode::slice:
        return slice();
      case Opcode::to_partial:
        return to_partial();
      case Opcode::all_gather:
        return all_gather();
      case Opcode::all_reduce:
        return reduce(Placement::replicated());
      case Opcode::reduce_scatter:
        return reduce(target(i_.dim, i_.table));
      case Opcode::all_to_all:
        return all_to_all();
      case Opcode::halo_exchange:
        return halo_exchange();
      case Opcode::broadcast:
        return broadcast();
      case Opcode::send:
        return send();
      case Opcode::compute:
        break;
    }
    return refuse("is no movement");
  }

 private:
  const std::string& tensor() const { return s_.node(operand_.node).name; }
  const std::string& axis() const { return s_.axis(i_.axis).name; }

  Inference refuse(std::string reason) const { return {std::nullopt, std::move(reason), {}}; }

  /// The operand, held as `placement` over the instruction's axis.
  Inference becomes(Placement placement, std::set<std::string> lemmas = {}) const {
    Held result = operand_;
    result.placements[i_.axis] = placement;
    for (const Placement& along : {held_, placement})
      if (along.kind == Kind::sharded && nests(s_.program.tables[along.table])) lemmas.insert("nested_parts");
    std::string misfit = unfit(s_, s_.node(result.node).type.shape, result.placements);
    if (!misfit.empty()) return refuse(fmt::format("{} of {}: {}", name(i_.opcode), tensor(), misfit));
    result.placements = normalised(s_, result.placements);
    return {result, "", std::move(lemmas)};
  }

  /// What devices of one group hold must be the same part but for the instruction's own axis: no other axis may cut by
  /// a table that differs along it. Empty if so.
  std::string meets_other_parts() const {
    if (!communicates(i_.opcode)) return "";
    for (int a = 0; a < s_.axis_count(); ++a) {
      const Placement& p = operand_.placements[a];
      if (a == i_.axis || p.kind != Kind::sharded) continue;
      const BoundaryTable& table = s_.program.tables[p.table];
      if (varies_along(table) == i_.axis)
        return fmt::format(
            "{} is cut over axis {} by table {}, which differs along axis {}: in {} over {} different "
            "parts of it would meet",
            tensor(), s_.axis(a).name, table.name, axis(), name(i_.opcode), axis());
    }
    return "";
  }

  /// Devices of other stages hold nothing to meet with; empty if the operand is on no stage of the axis.
  std::string on_stage() const {
    if (held_.kind != Kind::stage) return "";
    return fmt::format("{} is {}: in {} it would meet devices that hold nothing", tensor(),
                       describe(s_, held_, i_.axis), name(i_.opcode));
  }

  Placement target(int dim, int table) const { return Placement::sharded(dim, s_.table_of.at(table)); }

  /// Over an axis of one device every collective gives back its operand.
  bool alone() const { return s_.trivial(i_.axis); }

  Inference slice() const {
    if (!alone() && held_.kind != Kind::replicated)
      return refuse(fmt::format("{} is {} where slice needs it replicated", tensor(), describe(s_, held_, i_.axis)));
    return becomes(target(i_.dim, i_.table));
  }

  Inference to_partial() const {
    if (!alone() && held_ != Placement::stage(i_.root) && held_.kind != Kind::replicated)
      return refuse(fmt::format("{} is {} where only a replicated value can be left to one device", tensor(),
                                describe(s_, held_, i_.axis)));
    return becomes(Placement::partial(ReduceOp::sum), {"one_holder"});
  }

  /// That the operand is cut as the instruction says; empty if so.
  std::string differs_from_source() const {
    Placement expected = target(i_.dim, i_.table);
    if (alone() || held_ == expected) return "";
    if (std::string why = on_stage(); !why.empty()) return why;
    return fmt::format("{} is {} where {} expects it {}", tensor(), describe(s_, held_, i_.axis), name(i_.opcode),
                       describe(s_, expected, i_.axis));
  }

  Inference all_gather() const {
    if (std::string why = differs_from_source(); !why.empty()) return refuse(why);
    return becomes(Placement::replicated(), {"owner_exists", "owner_unique", "displacement"});
  }

  Inference all_to_all() const {
    if (std::string why = differs_from_source(); !why.empty()) return refuse(why);
    return becomes(target(i_.to_dim, i_.to_table), {"owner_exists", "owner_unique", "displacement"});
  }

  /// What a device holds besides, up to the ends of the tensor, some device's part has.
  Inference halo_exchange() const {
    if (std::string why = differs_from_source(); !why.empty()) return refuse(why);
    return becomes(Placement::overlapping(i_.dim, s_.table_of.at(i_.table), i_.before, i_.after),
                   {"owner_exists", "owner_unique", "displacement"});
  }

  /// all_reduce and reduce_scatter: every device, or the one that keeps the part, sees the reduction over the axis.
  Inference reduce(Placement result) const {
    if (alone()) return becomes(result);
    if (std::string why = on_stage(); !why.empty()) return refuse(why);
    if (held_.kind == Kind::sharded)
      return refuse(fmt::format("{} is {}: {} would combine different parts of it", tensor(),
                                describe(s_, held_, i_.axis), name(i_.opcode)));
    if (held_.kind == Kind::partial) {
      if (held_.reduce == i_.reduce) return becomes(result);
      return refuse(fmt::format("{} is {}, but {} takes the {} over axis {}", tensor(), describe(s_, held_, i_.axis),
                                name(i_.opcode), name(i_.reduce), axis()));
    }
    if (i_.reduce == ReduceOp::average) return becomes(result, {"copies_average"});
    if (i_.reduce == ReduceOp::max || i_.reduce == ReduceOp::min) return becomes(result, {"copies_extremum"});
    return refuse(fmt::format("{} is already whole on every device of axis {}: {} by {} counts it once per device",
                              tensor(), axis(), name(i_.opcode), name(i_.reduce)));
  }

  Inference broadcast() const {
    if (held_.kind == Kind::stage && held_.at != i_.root)
      return refuse(
          fmt::format("{} is {}, but stage {} is to broadcast it", tensor(), describe(s_, held_, i_.axis), i_.root));
    if (!alone() && held_.kind != Kind::replicated && held_.kind != Kind::stage)
      return refuse(fmt::format("{} is {}: a broadcast would put one device's part in place of the others'", tensor(),
                                describe(s_, held_, i_.axis)));
    return becomes(Placement::replicated());
  }

  Inference send() const {
    if (held_ != Placement::stage(i_.root))
      return refuse(
          fmt::format("{} is {}, but is sent from stage {}", tensor(), describe(s_, held_, i_.axis), i_.root));
    return becomes(Placement::stage(i_.to));
  }

  const Subject& s_;
  const Instruction& i_;
  const Held& operand_;
  const Placement held_;
};

}  // namespace

Inference infer_movement(const Subject& subject, const Instruction& instruction, const Held& operand) {
  return Movement(subject, instruction, operand).run();
}

}  // namespace hetsynth
