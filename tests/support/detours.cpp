#include "tests/support/detours.h"

#include <fmt/format.h>

#include <map>

#include "dsl/base/error.h"

namespace hetsynth::test {
namespace {

class Detours {
 public:
  Detours(const Program& reference, const SpmdProgram& plan) : r_(reference), in_(plan), out_(plan) {
    HETSYNTH_CHECK(plan.mesh.axes.size() == 1, "a plan over one axis");
    out_.instructions.clear();
  }

  SpmdProgram run() {
    for (Instruction i : in_.instructions) {
      for (ValueId& operand : i.operands) operand = latest(operand);
      const ValueId result = i.result;
      const bool computed = i.opcode == Opcode::compute && loop_of(r_, in_, i) < 0;
      out_.instructions.push_back(std::move(i));
      if (computed) behind(result);
    }
    for (auto& [target, value] : out_.finals) value = latest(value);
    if (out_.loss >= 0) out_.loss = latest(out_.loss);
    return std::move(out_);
  }

 private:
  ValueId latest(ValueId value) const {
    const auto moved = moved_.find(value);
    return moved == moved_.end() ? value : moved->second;
  }

  void behind(ValueId value) {
    const Placement held = out_.values[size_t(value)].placements[0];
    const Shape& shape = r_[out_.values[size_t(value)].node].type.shape;
    Instruction i;
    i.axis = 0;
    if (held.kind == Placement::Kind::replicated) {
      if (++copies_ % 3 != 0) return;
      i.opcode = Opcode::broadcast;
      i.root = copies_ / 3 % out_.mesh.axes[0].size;
      moved_[value] = move(value, i, held);
      return;
    }
    if (held.kind != Placement::Kind::sharded || held.overlaps()) return;
    for (int dim = 0; dim < int(shape.size()); ++dim) {
      if (dim == held.dim || shape[size_t(dim)] < 2) continue;
      i.opcode = Opcode::all_to_all;
      i.dim = held.dim, i.table = held.table;
      i.to_dim = dim, i.to_table = table(shape[size_t(dim)]);
      const ValueId there = move(value, i, Placement::sharded(i.to_dim, i.to_table));
      std::swap(i.dim, i.to_dim), std::swap(i.table, i.to_table);
      moved_[value] = move(there, i, held);
      return;
    }
  }

  ValueId move(ValueId from, Instruction i, Placement to) {
    const ValueId result = ValueId(out_.values.size());
    Value value = out_.values[size_t(from)];
    value.name = fmt::format("{}~{}", r_[value.node].name, result);
    value.placements = {to};
    out_.values.push_back(std::move(value));
    i.operands = {from};
    i.result = result;
    i.cause = "a detour";
    out_.instructions.push_back(std::move(i));
    return result;
  }

  /// Parts of 1, 2, 3 ... units, the second one empty among four or more.
  int table(int64_t extent) {
    const auto [known, fresh] = tables_.try_emplace(extent, int(out_.tables.size()));
    if (!fresh) return known->second;
    const int devices = out_.mesh.axes[0].size;
    BoundaryTable table{fmt::format("detour{}", extent), 0, extent, {0}};
    for (int64_t d = 1; d < devices; ++d)
      table.bounds.push_back(devices > 3 && d == 2 ? table.bounds.back()
                                                   : extent * d * (d + 1) / (devices * (devices + 1)));
    table.bounds.push_back(extent);
    out_.tables.push_back(std::move(table));
    return known->second;
  }

  const Program& r_;
  const SpmdProgram& in_;
  SpmdProgram out_;
  std::map<ValueId, ValueId> moved_;
  std::map<int64_t, int> tables_;  ///< by extent
  int copies_ = 0;
};

}  // namespace

SpmdProgram with_detours(const Program& reference, const SpmdProgram& plan) { return Detours(reference, plan).run(); }

}  // namespace hetsynth::test
