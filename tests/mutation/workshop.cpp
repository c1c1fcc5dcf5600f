#include "tests/mutation/workshop.h"

#include <algorithm>
#include <numeric>

namespace hetsynth::mutation {

std::vector<size_t> Workshop::order(size_t count) {
  std::vector<size_t> out(count);
  std::iota(out.begin(), out.end(), size_t(0));
  if (places_.per_kind != Places().per_kind) std::shuffle(out.begin(), out.end(), random_);
  return out;
}

void Workshop::hand_on(const std::string& place, SpmdProgram plan, bool equal, bool reclaimed) {
  if (done() || plan == p_) return;
  if (reclaimed) reclaim(plan);
  ++given_;
  stopped_ = !take_({kind_, place, std::move(plan), equal});
}

ValueId Workshop::insert(SpmdProgram& plan, size_t behind, Instruction i, Placements placements) {
  ValueId from = i.operands[0], made = ValueId(plan.values.size());
  plan.values.push_back({plan.values[size_t(from)].name + "'" + std::to_string(made), plan.values[size_t(from)].node,
                         std::move(placements)});
  i.result = made;
  for (size_t k = behind + 1; k < plan.instructions.size(); ++k)
    for (ValueId& operand : plan.instructions[k].operands)
      if (operand == from) operand = made;
  for (auto& final : plan.finals)
    if (final.second == from) final.second = made;
  if (plan.loss == from) plan.loss = made;
  plan.instructions.insert(plan.instructions.begin() + long(behind) + 1, i);
  return made;
}

void Workshop::drop(SpmdProgram& plan, size_t at) {
  ValueId from = plan.instructions[at].operands[0], gone = plan.instructions[at].result;
  plan.instructions.erase(plan.instructions.begin() + long(at));
  for (Instruction& i : plan.instructions)
    for (ValueId& operand : i.operands)
      if (operand == gone) operand = from;
  for (auto& final : plan.finals)
    if (final.second == gone) final.second = from;
  if (plan.loss == gone) plan.loss = from;
}

int Workshop::other_table(SpmdProgram& plan, int table) {
  BoundaryTable t = plan.tables[size_t(table)];
  for (size_t b = 1; b + 1 < t.bounds.size(); ++b) {
    for (int64_t to : {t.bounds[b] - 1, t.bounds[b] + 1}) {
      if (to < t.bounds[b - 1] || to > t.bounds[b + 1]) continue;
      t.bounds[b] = to;
      t.name += "'";
      plan.tables.push_back(t);
      return int(plan.tables.size()) - 1;
    }
  }
  return -1;
}

void Workshop::reclaim(SpmdProgram& plan) const {
  for (Instruction& i : plan.instructions) {
    if (i.result < 0 || i.result >= ValueId(plan.values.size()) || i.operands.empty()) continue;
    Value& value = plan.values[size_t(i.result)];
    if (i.opcode == Opcode::compute) {
      std::string reason;
      std::optional<Placements> found;
      if (i.operands.size() == r_[i.node].inputs.size()) found = infer_placements(plan, r_, i, &reason);
      if (found) value.placements = *found;
      value.node = i.node;
      continue;
    }
    const Value& from = plan.values[size_t(i.operands[0])];
    if (from.node != value.node) continue;
    Placements to = from.placements;
    if (i.axis < 0 || i.axis >= int(to.size())) continue;
    switch (i.opcode) {
      case Opcode::slice:
      case Opcode::reduce_scatter:
        to[size_t(i.axis)] = Placement::sharded(i.dim, i.table);
        break;
      case Opcode::all_to_all:
        to[size_t(i.axis)] = Placement::sharded(i.to_dim, i.to_table);
        break;
      case Opcode::halo_exchange:
        to[size_t(i.axis)] = Placement::overlapping(i.dim, i.table, i.before, i.after);
        break;
      case Opcode::to_partial:
        to[size_t(i.axis)] = Placement::partial(ReduceOp::sum);
        break;
      case Opcode::send:
        to[size_t(i.axis)] = Placement::stage(i.to);
        break;
      default:
        to[size_t(i.axis)] = Placement::replicated();
    }
    value.placements = to;
  }
}

}  // namespace hetsynth::mutation
