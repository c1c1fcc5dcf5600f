#include "tests/support/nested_plan.h"

#include "dsl/base/error.h"

namespace hetsynth::test {
namespace {

class Nesting {
 public:
  Nesting(const SpmdProgram& flat, int groups) : in_(flat), out_(flat), members_(flat.mesh.axes[0].size / groups) {
    HETSYNTH_CHECK(flat.mesh.axes.size() == 1 && members_ * groups == flat.mesh.axes[0].size,
                   "groups of as many devices of one axis");
    out_.mesh.axes = {{"group", groups}, {flat.mesh.axes[0].name, members_}};
    out_.hosts.clear();
    out_.tables.clear();
    out_.instructions.clear();
  }

  SpmdProgram run() {
    for (const BoundaryTable& table : in_.tables) add(table);
    for (Value& value : out_.values) {
      const Placement flat = value.placements[0];
      value.placements = {along(flat, 0), along(flat, 1)};
    }
    for (const Instruction& i : in_.instructions) add(i);
    return std::move(out_);
  }

 private:
  /// Table t becomes tables 2 t of the groups and 2 t + 1 of their parts.
  void add(const BoundaryTable& table) {
    BoundaryTable outer{table.name + "/group", 0, table.extent}, inner{table.name, 1, table.extent, {}, 0};
    for (size_t at = 0; at < table.bounds.size(); at += size_t(members_)) {
      outer.bounds.push_back(table.bounds[at]);
      if (at + 1 == table.bounds.size()) break;
      const auto begin = table.bounds.begin() + std::ptrdiff_t(at);
      inner.rows.emplace_back(begin, begin + members_ + 1);
    }
    out_.tables.push_back(std::move(outer));
    out_.tables.push_back(std::move(inner));
  }

  static Placement along(Placement flat, int axis) {
    if (flat.kind == Placement::Kind::sharded) flat.table = 2 * flat.table + axis;
    return flat;
  }

  void add(Instruction i) {
    if (i.opcode == Opcode::compute) {
      const Split flat = i.splits[0];
      i.splits = {flat, flat};
      for (int axis = 0; axis < 2; ++axis)
        if (flat.factor >= 0) i.splits[size_t(axis)].table = 2 * flat.table + axis;
      out_.instructions.push_back(std::move(i));
      return;
    }
    HETSYNTH_CHECK(i.opcode != Opcode::all_to_all && i.opcode != Opcode::send, "a movement in two steps");
    // What is divided is divided by groups first, what is put together within them.
    const bool divides =
        i.opcode == Opcode::slice || i.opcode == Opcode::reduce_scatter || i.opcode == Opcode::to_partial;
    const int first = divides ? 0 : 1, second = 1 - first;
    Value between = out_.values[size_t(i.result)];
    between.name += "/between";
    between.placements[size_t(second)] = out_.values[size_t(i.operands[0])].placements[size_t(second)];
    out_.values.push_back(between);
    Instruction next = i;
    i.result = ValueId(out_.values.size()) - 1;
    next.operands = {i.result};
    for (auto [step, axis] : {std::pair(&i, first), std::pair(&next, second)}) {
      if (step->table >= 0) step->table = 2 * step->table + axis;
      step->root = axis == 0 ? step->root / members_ : step->root % members_;
      step->axis = axis;
      out_.instructions.push_back(*step);
    }
  }

  const SpmdProgram& in_;
  SpmdProgram out_;
  const int members_;
};

}  // namespace

SpmdProgram nested_plan(const SpmdProgram& flat, int groups) { return Nesting(flat, groups).run(); }

}  // namespace hetsynth::test
