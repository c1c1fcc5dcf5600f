#include "tests/attack/draft.h"

#include <algorithm>

#include "dsl/spmd/nested_cut.h"

namespace hetsynth::attack {

Draft::Draft(Random& random, const Program& reference, SpmdProgram plan, ProofCache& cache)
    : random(random),
      reference(reference),
      plan(std::move(plan)),
      rules(reference, this->plan, cache),
      spans_(reference.loops.size()) {}

ValueId Draft::add_value(NodeId node, Placements placements) {
  const std::string name = reference[node].name + "@" + text(plan.mesh, placements);
  plan.values.push_back({name + "#" + std::to_string(plan.values.size()), node, std::move(placements)});
  return ValueId(plan.values.size()) - 1;
}

ValueId Draft::add_leaf(NodeId node, Placements placements) {
  const ValueId v = add_value(node, std::move(placements));
  plan.leaves.push_back(v);
  held_.push_back(rules.as_said(plan.values.back()));
  return v;
}

int Draft::any_table(int axis, int64_t extent) {
  std::vector<int> fit;
  for (size_t t = 0; t < plan.tables.size(); ++t)
    if (plan.tables[t].axis == axis && extent % plan.tables[t].extent == 0) fit.push_back(int(t));
  return fit.empty() ? -1 : attack::any_of(random, fit);
}

bool Draft::readable(ValueId v) const { return loop_ < 0 || node(v).loop != loop_ || stacked_dim(node(v).space) < 0; }

std::vector<ValueId> Draft::values_of(NodeId node) const {
  std::vector<ValueId> out;
  for (ValueId v = 0; v < ValueId(plan.values.size()); ++v)
    if (rules.same(plan.values[size_t(v)].node, node) && readable(v)) out.push_back(v);
  return out;
}

Placements Draft::in_other_words(const Held& found, const Placements& word) {
  const Placements plain = rules.said(found, word);
  Placements said = plain;
  const Shape& shape = reference[found.node].type.shape;
  for (int a = 0; a < axis_count() && !shape.empty(); ++a) {
    Placement& p = said[size_t(a)];
    const bool alone = plan.mesh.axes[size_t(a)].size == 1;
    if (alone && chance(random, 25)) p = Placement::sharded(int(below(random, int64_t(shape.size()))), 0);
    if (p.kind != Placement::Kind::sharded || (!alone && p.table == plain[size_t(a)].table && chance(random, 70)))
      continue;
    const int table = any_table(a, shape[size_t(p.dim)]);
    if (table >= 0 && (alone || rules.alike_over(a, p, Placement::sharded(p.dim, table)))) p.table = table;
  }
  return rules.holdable(found.node, said) && rules.alike(said, found.placements) ? said : plain;
}

ValueId Draft::try_add(Instruction i, const Placements& word) {
  if (i.opcode == Opcode::compute && !why_not_divided(plan, reference[i.node].space.factors, i.splits).empty())
    return -1;
  std::vector<Held> operands;
  for (ValueId v : i.operands) operands.push_back(held_[size_t(v)]);
  const NodeId node = i.opcode == Opcode::compute ? i.node : plan.values[size_t(i.operands[0])].node;
  std::optional<Held> made = rules.result(i, operands);
  const bool refused = !made;
  // What a halo is wrong for is right by luck too often: where one device has everything.
  const bool overlaps = !i.operands.empty() && std::ranges::any_of(placements(i.operands[0]), &Placement::overlaps);
  if (refused && (wild_added >= wild || !rules.holdable(node, word) || !chance(random, overlaps ? 8 : 40))) return -1;
  i.result = add_value(node, refused ? word : in_other_words(*made, word));
  held_.push_back(refused ? rules.as_said(plan.values.back()) : *made);
  if (refused) ++wild_added, latest_wild = i.result;
  insert(i);
  return i.result;
}

void Draft::enter(int loop) {
  loop_ = loop;
  if (loop >= 0 && spans_[size_t(loop)].first < 0)
    spans_[size_t(loop)] = {int(plan.instructions.size()), int(plan.instructions.size())};
}

void Draft::insert(Instruction instruction) {
  const int of = loop_of(reference, plan, instruction);
  int at = int(plan.instructions.size());
  if (of >= 0) at = spans_[size_t(of)].last;
  if (of < 0 && loop_ >= 0) at = spans_[size_t(loop_)].first;
  plan.instructions.insert(plan.instructions.begin() + at, std::move(instruction));
  for (int l = 0; l < int(spans_.size()); ++l) {
    Span& span = spans_[size_t(l)];
    if (l == of)
      ++span.last;
    else if (span.first >= at)
      ++span.first, ++span.last;
  }
}

}  // namespace hetsynth::attack
