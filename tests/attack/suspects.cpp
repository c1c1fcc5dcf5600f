#include "tests/attack/suspects.h"

#include <algorithm>
#include <vector>

#include "dsl/spmd/nested_cut.h"

namespace hetsynth::attack {
namespace {

using Kind = Placement::Kind;

/// Axes of more than one device along which what devices hold differs, though the placements do not say so: behind an
/// open sum over parts by a table that differs along them, or over parts of what did.
class Summands {
 public:
  Summands(const Program& reference, const SpmdProgram& plan) : r_(reference), p_(plan), varying_(plan.values.size()) {}

  bool meet() {
    bool found = false;
    for (const Instruction& i : p_.instructions) {
      for (ValueId v : i.operands) varying_[size_t(i.result)].insert(of(v).begin(), of(v).end());
      i.opcode == Opcode::compute ? divided(i) : cut(i);
      found = found || meets(i);
    }
    return found;
  }

 private:
  std::set<int>& of(ValueId v) { return varying_[size_t(v)]; }
  bool alone(int axis) const { return p_.mesh.axes[size_t(axis)].size == 1; }
  bool open(ValueId v) const {
    return std::ranges::any_of(p_.values[size_t(v)].placements,
                               [](const Placement& p) { return p.kind == Kind::partial; });
  }

  void by_table(ValueId result, int table) {
    const int along = varies_along(p_.tables[size_t(table)]);
    if (along >= 0 && !alone(along)) of(result).insert(along);
  }

  void divided(const Instruction& i) {
    for (const Split& s : i.splits)
      if (s.factor >= 0 && r_[i.node].space.factors[size_t(s.factor)].reduced()) by_table(i.result, s.table);
  }

  /// A part of a sum that is left open elsewhere.
  void cut(const Instruction& i) {
    for (ValueId v : i.operands)
      for (const Placement& p : p_.values[size_t(v)].placements)
        if (p.kind == Kind::sharded && i.opcode == Opcode::to_partial) by_table(i.result, p.table);
  }

  bool meets(const Instruction& i) {
    for (ValueId v : i.operands) {
      for (const Placement& p : p_.values[size_t(v)].placements)
        if (i.opcode == Opcode::to_partial && p.kind == Kind::sharded &&
            varies_along(p_.tables[size_t(p.table)]) == i.axis)
          return true;  // each device's summand is of its own part
      if (!open(v)) continue;
      if (i.opcode != Opcode::compute && of(v).count(i.axis)) return true;
      // A product with a sum that is open over an axis along which this one differs.
      for (ValueId w : i.operands)
        for (size_t a = 0; i.opcode == Opcode::compute && a < p_.mesh.axes.size(); ++a)
          if (of(v).count(int(a)) &&
              (p_.values[size_t(w)].placements[a].kind == Kind::partial || i.splits[a].factor >= 0))
            return true;
    }
    return false;
  }

  const Program& r_;
  const SpmdProgram& p_;
  std::vector<std::set<int>> varying_;  ///< by value
};

/// Over an axis of one device a movement cuts or joins a dimension that other axes cut too, or by rows of them; or a
/// computation is divided by rows.
bool cuts_on_lone_axis(const SpmdProgram& plan) {
  const auto alone = [&](int axis) { return plan.mesh.axes[size_t(axis)].size == 1; };
  const auto rows = [&](int table) { return plan.tables[size_t(table)].by >= 0; };
  return std::ranges::any_of(plan.instructions, [&](const Instruction& i) {
    if (i.opcode == Opcode::compute)
      return std::ranges::any_of(i.splits, [&](const Split& s) {
        return s.table >= 0 && rows(s.table) && alone(plan.tables[size_t(s.table)].axis);
      });
    if (!alone(i.axis) || i.table < 0) return false;
    bool cut_elsewhere = rows(i.table) || (i.to_table >= 0 && rows(i.to_table));
    for (const Placement& p : plan.values[size_t(i.operands[0])].placements)
      cut_elsewhere = cut_elsewhere || (p.kind == Kind::sharded && (p.dim == i.dim || p.dim == i.to_dim));
    return cut_elsewhere;
  });
}

bool carry_read_behind(const Program& reference, const SpmdProgram& plan) {
  std::set<ValueId> carries;
  for (const Instruction& i : plan.instructions) {
    if (i.opcode == Opcode::compute && reference.next_of(i.node) >= 0) carries.insert(i.result);
    for (ValueId v : i.operands)
      if (carries.count(v) && loop_of(reference, plan, i) != reference[plan.values[size_t(v)].node].loop) return true;
  }
  return carries.count(plan.loss) ||
         std::ranges::any_of(plan.finals, [&](const auto& f) { return carries.count(f.second) > 0; });
}

}  // namespace

std::string_view name(Suspect suspect) {
  static constexpr std::string_view names[] = {"varying summands", "cut over an axis of one device",
                                               "carry read behind its loop"};
  return names[size_t(suspect)];
}

std::set<Suspect> suspects_of(const Program& reference, const SpmdProgram& plan) {
  std::set<Suspect> out;
  if (Summands(reference, plan).meet()) out.insert(Suspect::varying_summands);
  if (cuts_on_lone_axis(plan)) out.insert(Suspect::lone_axis);
  if (carry_read_behind(reference, plan)) out.insert(Suspect::carry_behind);
  return out;
}

}  // namespace hetsynth::attack
