#include "verify/rules/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "dsl/spmd/hosts.h"
#include "dsl/spmd/loop_schedule.h"
#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan_text.h"
#include "verify/rules/normalised_plan.h"
#include "verify/rules/same_tensor.h"

namespace hetsynth {

namespace {

constexpr int max_devices = 1 << 20;
constexpr int max_axes = 8;

/// So many elements before or after a part.
bool may_reach(int64_t elements) { return elements >= 0 && elements <= int64_t{1} << 40; }

/// The checks of one plan, in an order in which each may rely on those before.
class FormCheck {
 public:
  FormCheck(const Program& reference, const SpmdProgram& program) : reference_(reference), p_(program) {}

  std::optional<Flaw> run() {
    if (!mesh() || !tables() || !values() || !leaves()) return flaw_;
    for (size_t i = 0; i < p_.instructions.size(); ++i)
      if (!instruction(int(i))) return flaw_;
    if (loops() && schedules() && carries_stay() && results()) outputs();
    return flaw_;
  }

 private:
  bool fail(std::string text, int instruction = -1, NodeId node = -1) {
    flaw_ = Flaw{std::move(text), instruction, node};
    return false;
  }

  bool mesh() {
    if (p_.mesh.axes.empty() || p_.mesh.axes.size() > size_t(max_axes))
      return fail(fmt::format("the mesh has {} axes", p_.mesh.axes.size()));
    int64_t devices = 1;
    for (const Mesh::Axis& axis : p_.mesh.axes) {
      if (axis.size < 1 || axis.size > max_devices || (devices *= axis.size) > max_devices)
        return fail(fmt::format("mesh axis {} has {} devices", axis.name, axis.size));
    }
    for (size_t r = 0; r < p_.hosts.size(); ++r)
      if (p_.hosts.size() != size_t(devices) || p_.hosts[r] < 0 || (r > 0 && p_.hosts[r] < p_.hosts[r - 1]))
        return fail(fmt::format("the plan's {} hosts of {} devices are not in the order of the ranks", p_.hosts.size(),
                                devices));
    return true;
  }

  bool tables() {
    for (const BoundaryTable& t : p_.tables) {
      if (!below(t.axis, p_.mesh.axes.size())) return fail(fmt::format("table {} belongs to no mesh axis", t.name));
      if (t.by == -1) {
        if (!bounds(t, t.bounds)) return false;
        continue;
      }
      if (!below(t.by, p_.mesh.axes.size()) || t.by == t.axis)
        return fail(fmt::format("table {} differs along no other axis of the mesh", t.name));
      if (t.rows.size() != size_t(p_.mesh.axes[t.by].size))
        return fail(fmt::format("table {} has {} rows for {} devices of axis {}", t.name, t.rows.size(),
                                p_.mesh.axes[t.by].size, p_.mesh.axes[t.by].name));
      if (nests(t)) {
        if (t.extent < 1 || t.by > t.axis)
          return fail(fmt::format("table {} divides parts over axis {}, which does not come before its own", t.name,
                                  p_.mesh.axes[t.by].name));
        for (const std::vector<int64_t>& row : t.rows)
          if (!rises(t, row)) return false;
        continue;
      }
      for (const std::vector<int64_t>& row : t.rows)
        if (!bounds(t, row)) return false;
    }
    return true;
  }

  /// A boundary for every device of a group and one more, none before the last.
  bool rises(const BoundaryTable& t, const std::vector<int64_t>& bounds) {
    size_t devices = size_t(p_.mesh.axes[t.axis].size);
    if (bounds.size() != devices + 1)
      return fail(fmt::format("table {} has {} boundaries for {} devices", t.name, bounds.size(), devices));
    for (size_t i = 0; i + 1 < bounds.size(); ++i)
      if (bounds[i] > bounds[i + 1])
        return fail(
            fmt::format("table {} falls from {} to {}, so that shares overlap", t.name, bounds[i], bounds[i + 1]));
    return true;
  }

  /// How one group of the table's axis cuts everything.
  bool bounds(const BoundaryTable& t, const std::vector<int64_t>& bounds) {
    if (!rises(t, bounds)) return false;
    if (t.extent < 1 || bounds.front() != 0)
      return fail(fmt::format("table {} begins at {} of {} units, which leaves units without a device", t.name,
                              bounds.front(), t.extent));
    if (bounds.back() != t.extent)
      return fail(fmt::format("table {} ends at {} of {} units, which leaves units without a device", t.name,
                              bounds.back(), t.extent));
    return true;
  }

  bool placements(const Placements& placements) const {
    if (placements.size() != p_.mesh.axes.size()) return false;
    for (const Placement& p : placements) {
      if (p.kind > Placement::Kind::stage || p.reduce > ReduceOp::product) return false;
      if (p.kind == Placement::Kind::sharded && !below(p.table, p_.tables.size())) return false;
      if (p.kind != Placement::Kind::sharded && (p.before != 0 || p.after != 0)) return false;
      if (!may_reach(p.before) || !may_reach(p.after)) return false;
    }
    return true;
  }

  std::string unholdable(const Value& value) const {
    const Subject subject{reference_, p_, {}, {}, {}};
    const Shape& shape = reference_[value.node].type.shape;
    std::string why = unfit(subject, shape, value.placements);
    for (const Placement& p : value.placements)
      if (why.empty() && p.kind == Placement::Kind::sharded) why = uncuttable(subject, shape, p.dim, p.table);
    return why;
  }

  bool values() {
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const Value& value = p_.values[v];
      if (!below(value.node, reference_.nodes.size()))
        return fail(fmt::format("value {} stands for node {}, which the program does not have", v, value.node));
      if (!placements(value.placements)) return fail(fmt::format("value {} has no sensible placement", v));
      if (std::string why = unholdable(value); !why.empty())
        return fail(fmt::format("value {} is said to be held as it cannot be: {}", value.name, why), -1, value.node);
    }
    defined_.assign(p_.values.size(), false);
    return true;
  }

  bool leaves() {
    for (ValueId v : p_.leaves) {
      if (!below(v, p_.values.size())) return fail(fmt::format("leaf value {} does not exist", v));
      NodeId node = p_.values[v].node;
      if (!reference_[node].leaf())
        return fail(fmt::format("{} is computed, not given at the start of the step", reference_[node].name), -1, node);
      if (reference_[node].kind != NodeKind::input)
        for (const Placement& p : p_.values[v].placements)
          if (p.overlaps())
            return fail(fmt::format("parts of the {} {} overlap: it would be kept twice", name(reference_[node].kind),
                                    reference_[node].name),
                        -1, node);
      if (!define(v, -1)) return false;
    }
    return true;
  }

  bool define(ValueId v, int instruction) {
    if (!below(v, p_.values.size()))
      return fail(fmt::format("instruction {} defines value {}, which does not exist", instruction, v), instruction);
    if (defined_[v])
      return fail(fmt::format("value {} is defined twice", p_.values[v].name), instruction, p_.values[v].node);
    defined_[v] = true;
    return true;
  }

  bool use(ValueId v, int instruction) {
    if (!below(v, p_.values.size()))
      return fail(fmt::format("instruction {} reads value {}, which does not exist", instruction, v), instruction);
    if (!defined_[v])
      return fail(fmt::format("value {} is read before it is defined", p_.values[v].name), instruction,
                  p_.values[v].node);
    return true;
  }

  bool instruction(int number) {
    const Instruction& i = p_.instructions[number];
    auto bad = [&](const std::string& what) { return fail(fmt::format("instruction {} {}", number, what), number); };
    if (i.opcode > Opcode::halo_exchange || i.reduce > ReduceOp::product || i.realisation > Realisation::hierarchical)
      return bad("has an unknown operation");
    for (ValueId v : i.operands)
      if (!use(v, number)) return false;
    if (i.opcode == Opcode::compute ? !compute(i, number) : !collective(i, number)) return false;
    return define(i.result, number);
  }

  bool compute(const Instruction& i, int number) {
    auto bad = [&](const std::string& what) { return fail(fmt::format("instruction {} {}", number, what), number); };
    if (!below(i.node, reference_.nodes.size())) return bad("computes a node that the program does not have");
    const Node& node = reference_[i.node];
    if (node.leaf()) return bad(fmt::format("computes {}, which is given", node.name));
    if (i.operands.size() != node.inputs.size())
      return bad(
          fmt::format("gives {} operands to {}, which has {}", i.operands.size(), node.name, node.inputs.size()));
    if (i.splits.size() != p_.mesh.axes.size()) return bad("does not say how each mesh axis divides it");
    for (size_t a = 0; a < i.splits.size(); ++a) {
      const Split& s = i.splits[a];
      if (s.stage != -1 && (s.factor != -1 || !below(s.stage, size_t(p_.mesh.axes[a].size))))
        return bad(fmt::format("is left to a stage that axis {} does not have", p_.mesh.axes[a].name));
      if (s.factor == -1) continue;
      if (!below(s.factor, node.space.factors.size())) return bad("divides a factor that its operator does not have");
      if (!below(s.table, p_.tables.size())) return bad("divides by a table that does not exist");
      const BoundaryTable& table = p_.tables[s.table];
      if (table.axis != int(a))
        return fail(fmt::format("{} is divided over axis {} by table {} of axis {}", node.name, p_.mesh.axes[a].name,
                                table.name, p_.mesh.axes[table.axis].name),
                    number, i.node);
    }
    if (const std::string why = why_not_divided(p_, node.space.factors, i.splits); !why.empty())
      return fail(fmt::format("in {}, {}", node.name, why), number, i.node);
    return true;
  }

  bool collective(const Instruction& i, int number) {
    auto bad = [&](const std::string& what) { return fail(fmt::format("instruction {} {}", number, what), number); };
    if (i.operands.size() != 1) return bad(fmt::format("has {} operands in place of one", i.operands.size()));
    if (!below(i.axis, p_.mesh.axes.size())) return bad("runs over a mesh axis that does not exist");
    const OpcodeFields fields = fields_of(i.opcode);
    if (fields.cut && !below(i.table, p_.tables.size())) return bad("cuts by a table that does not exist");
    if (fields.to_cut && !below(i.to_table, p_.tables.size())) return bad("cuts by a table that does not exist");
    for (int t : {fields.cut ? i.table : -1, fields.to_cut ? i.to_table : -1})
      if (t >= 0 && p_.tables[t].axis != i.axis)
        return fail(fmt::format("{} of {} over axis {} by table {}, which cuts over axis {}", name(i.opcode),
                                reference_[p_.values[i.operands[0]].node].name, p_.mesh.axes[i.axis].name,
                                p_.tables[t].name, p_.mesh.axes[p_.tables[t].axis].name),
                    number, p_.values[i.operands[0]].node);
    if (fields.to_cut && i.dim == i.to_dim)
      return fail(fmt::format("all_to_all of {} from dimension {} to the same",
                              reference_[p_.values[i.operands[0]].node].name, i.dim),
                  number, p_.values[i.operands[0]].node);
    const size_t coordinates = size_t(p_.mesh.axes[i.axis].size);
    if (fields.root && !below(i.root, coordinates)) return bad("has a root outside of its axis");
    if (fields.to && !below(i.to, coordinates)) return bad("sends to a stage outside of its axis");
    if (fields.to && i.root == i.to)
      return fail(fmt::format("{} is sent from stage {} of axis {} to itself",
                              reference_[p_.values[i.operands[0]].node].name, i.root, p_.mesh.axes[i.axis].name),
                  number, p_.values[i.operands[0]].node);
    if (fields.halo && (!may_reach(i.before) || !may_reach(i.after) || i.before + i.after == 0))
      return bad("exchanges no number of elements that there could be");
    if (i.realisation == Realisation::hierarchical)
      if (const std::string why = why_not_hierarchical(p_, i); !why.empty())
        return fail(why, number, p_.values[i.operands[0]].node);
    return true;
  }

  /// Instructions of a loop in one piece; what it fills is not read before it is complete; each carry takes over one
  /// value, which the same turn has made and which no carry holds (they all change at once).
  bool loops() {
    std::map<int, int> pieces;
    for (const LoopSpan& span : loop_spans(reference_, p_)) {
      if (++pieces[span.loop] > 1)
        return fail(fmt::format("the instructions of loop {} do not stand one behind the other", span.loop),
                    span.first);
      for (int i = span.first; i < span.last; ++i)
        for (ValueId v : p_.instructions[i].operands) {
          const Node& read = reference_[p_.values[v].node];
          if (read.loop == span.loop && stacked_dim(read.space) >= 0)
            return fail(fmt::format("{} is read in the loop that fills it", p_.values[v].name), i, read.id);
        }
    }
    std::map<NodeId, int> computed, given;
    for (const Instruction& i : p_.instructions)
      if (i.opcode == Opcode::compute && reference_.next_of(i.node) >= 0) ++computed[i.node];
    for (const auto& [carry, value] : p_.carried) {
      if (!below(carry, reference_.nodes.size()) || reference_.next_of(carry) < 0)
        return fail(fmt::format("node {} is said to be carried, but is carried by no loop", carry));
      const std::string& tensor = reference_[carry].name;
      if (!below(value, p_.values.size()) || !defined_[value])
        return fail(fmt::format("what {} takes over is never computed", tensor), -1, carry);
      ++given[carry];
    }
    for (const TurnLoop& loop : reference_.loops)
      for (const TurnLoop::Carry& c : loop.carries) {
        const std::string& tensor = reference_[c.carry].name;
        if (computed[c.carry] > 1) return fail(fmt::format("{} begins twice", tensor), -1, c.carry);
        if (given[c.carry] != (computed[c.carry] > 0))
          return fail(fmt::format("{} takes over {} values at the end of a turn", tensor, given[c.carry]), -1, c.carry);
      }
    for (const auto& [carry, value] : p_.carried) {
      const Instruction* maker = nullptr;
      for (const Instruction& i : p_.instructions)
        if (i.result == value) maker = &i;
      if (!maker || loop_of(reference_, p_, *maker) != reference_[carry].loop ||
          (maker->opcode == Opcode::compute && reference_.next_of(maker->node) >= 0))
        return fail(fmt::format("{} takes over {}, which no turn makes", reference_[carry].name, p_.values[value].name),
                    -1, carry);
    }
    return true;
  }

  /// Turns that overlap do so in an order that their data allow.
  bool schedules() {
    for (const LoopSchedule& schedule : p_.schedules)
      if (const std::optional<ScheduleFlaw> flaw = hetsynth::flaw_of(reference_, p_, schedule))
        return fail(flaw->text, flaw->instruction);
    return true;
  }

  /// A carry is there in the turns of its loop alone: behind them, what it takes over has taken its place.
  bool carries_stay() {
    for (const Instruction& i : p_.instructions)
      if (i.opcode == Opcode::compute && reference_.next_of(i.node) >= 0) carry_held_by_[i.result] = i.node;
    const auto gone = [&](ValueId v, int instruction) {
      const auto carry = carry_held_by_.find(v);
      if (carry == carry_held_by_.end()) return true;
      if (instruction >= 0 &&
          loop_of(reference_, p_, p_.instructions[size_t(instruction)]) == reference_[carry->second].loop)
        return true;
      return fail(fmt::format("{} is read behind the loop that carries it, where what it takes over last has taken its "
                              "place",
                              p_.values[v].name),
                  instruction, carry->second);
    };
    for (size_t i = 0; i < p_.instructions.size(); ++i)
      for (ValueId v : p_.instructions[i].operands)
        if (!gone(v, int(i))) return false;
    for (const auto& [target, value] : p_.finals)
      if (!gone(value, -1)) return false;
    return gone(p_.loss, -1);
  }

  bool results() {
    std::map<NodeId, int> starts, wanted, given;
    for (ValueId leaf : p_.leaves) ++starts[p_.values[leaf].node];
    for (const Update& update : reference_.updates) ++wanted[update.target];
    for (auto [target, value] : p_.finals) {
      if (!below(target, reference_.nodes.size()))
        return fail(fmt::format("node {}, which the program does not have, is said to be updated", target));
      const std::string& tensor = reference_[target].name;
      auto bad = [&](const std::string& what) { return fail(fmt::format("{} {}", tensor, what), -1, target); };
      if (!below(value, p_.values.size()) || !defined_[value])
        return fail(fmt::format("the new contents of {} are never computed", tensor), -1, target);
      if (++given[target] > 1) return bad("is updated twice");
      if (!wanted.count(target)) return bad("is updated, which the program does not ask for");
      if (starts[target] == 0) return bad("is updated but not held at the start of the step");
      if (starts[target] > 1) return bad("is held twice at the start of the step");
    }
    if (p_.loss == -1 && reference_.loss != -1) return fail("the plan computes no loss");
    if (p_.loss != -1 && reference_.loss == -1) return fail("the plan has a loss, but the program has none");
    if (p_.loss != -1 && (!below(p_.loss, p_.values.size()) || !defined_[p_.loss]))
      return fail("the value of the loss is never computed");
    return true;
  }

  /// What the user wants to look at must be there to be read: whole, or cut over the devices.
  bool outputs() {
    for (const NamedOutput& output : reference_.outputs) {
      bool readable = false;
      for (size_t v = 0; v < p_.values.size() && !readable; ++v)
        readable = defined_[v] && p_.values[v].node == output.node && complete(p_.values[v].placements) &&
                   !carry_held_by_.count(ValueId(v));
      if (!readable)
        return fail(
            fmt::format("the output {} cannot be read: {} is nowhere more than partial, or in parts that overlap",
                        output.name, reference_[output.node].name),
            -1, output.node);
    }
    return true;
  }

  /// No device holds but a summand, nor parts of its neighbours'; over an axis of one device a summand is everything.
  bool complete(const Placements& placements) const {
    for (size_t a = 0; a < placements.size(); ++a)
      if ((placements[a].kind == Placement::Kind::partial && p_.mesh.axes[a].size > 1) || placements[a].overlaps())
        return false;
    return true;
  }

  const Program& reference_;
  const SpmdProgram& p_;
  std::vector<bool> defined_;
  std::map<ValueId, NodeId> carry_held_by_;  ///< the values that loops' carries live in
  std::optional<Flaw> flaw_;
};

}  // namespace

std::optional<Flaw> flaw_of(const Program& reference, const SpmdProgram& program) {
  return FormCheck(reference, program).run();
}

}  // namespace hetsynth
