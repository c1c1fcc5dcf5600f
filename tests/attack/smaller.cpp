#include "tests/attack/smaller.h"

#include <algorithm>
#include <set>

#include "dsl/spmd/plan_text.h"
#include "verify/rules/form.h"

namespace hetsynth::attack {
namespace {

class Reducer {
 public:
  Reducer(Case failing, ProofCache& cache, const std::function<bool(const Case&)>& fails)
      : best_(std::move(failing)), cache_(cache), fails_(fails) {}

  Case run() {
    for (bool better = true; better;) {
      better = false;
      better |= each(best_.plan.finals.size(), [](Case& c, size_t k) { drop_final(c, k); });
      better |= each(best_.model.program.loss >= 0, [](Case& c, size_t) { c.plan.loss = c.model.program.loss = -1; });
      better |= each(best_.plan.instructions.size(), drop_instruction);
      better |= each(best_.plan.instructions.size() * axes(), [&](Case& c, size_t k) {
        Instruction& i = c.plan.instructions[k / axes()];
        if (i.opcode == Opcode::compute) i.splits[k % axes()] = {};
      });
      better |= each(best_.plan.leaves.size() * axes(), [&](Case& c, size_t k) {
        c.plan.values[size_t(c.plan.leaves[k / axes()])].placements[k % axes()] = {};
      });
      better |= each(best_.plan.values.size() * axes(), [&](Case& c, size_t k) {  // words about axes of one device
        c.plan.values[k / axes()].placements[k % axes()] = {};
      });
      better |= each(best_.plan.leaves.size(), drop_leaf);
      better |= each(best_.model.program.nodes.size(), drop_node);
      better |= each(best_.plan.tables.size(), drop_table);
      better |= each(axes(), drop_axis);
    }
    for (size_t v = 0; v < best_.plan.values.size(); ++v) {  // names tell placements
      Value& value = best_.plan.values[v];
      value.name = best_.model.program[value.node].name + "@" + text(best_.plan.mesh, value.placements) + "#" +
                   std::to_string(v);
    }
    return std::move(best_);
  }

 private:
  size_t axes() const { return best_.plan.mesh.axes.size(); }

  /// Tries a change at every place, the last first; true if one of them stays.
  bool each(size_t places, const std::function<void(Case&, size_t)>& change) {
    bool better = false;
    for (size_t k = places; k-- > 0;) {
      Case changed = best_;
      change(changed, k);
      if (changed.plan == best_.plan && changed.model.program.nodes.size() == best_.model.program.nodes.size())
        continue;
      if (flaw_of(changed.model.program, changed.plan)) continue;
      if (!changed.wild) {
        std::optional<SpmdProgram> said = said_anew(changed.model.program, changed.plan, cache_);
        if (!said) continue;
        changed.plan = std::move(*said);
        if (changed.plan == best_.plan) continue;
      }
      if (flaw_of(changed.model.program, changed.plan) || !fails_(changed)) continue;
      best_ = std::move(changed);
      better = true;
    }
    return better;
  }

  static bool used(const SpmdProgram& p, ValueId v) {
    return v == p.loss || std::ranges::any_of(p.finals, [&](auto& f) { return f.second == v; }) ||
           std::ranges::any_of(p.carried, [&](auto& f) { return f.second == v; }) ||
           std::ranges::any_of(p.instructions, [&](auto& i) { return std::ranges::count(i.operands, v) > 0; });
  }

  static void drop_value(SpmdProgram& p, ValueId gone) {
    each_value(p, [&](ValueId& v) { v -= v > gone; });
    p.values.erase(p.values.begin() + gone);
  }

  static void each_value(SpmdProgram& p, const std::function<void(ValueId&)>& visit) {
    for (Instruction& i : p.instructions) {
      for (ValueId& v : i.operands) visit(v);
      visit(i.result);
    }
    for (auto& [node, v] : p.finals) visit(v);
    for (auto& [node, v] : p.carried) visit(v);
    for (ValueId& v : p.leaves) visit(v);
    if (p.loss >= 0) visit(p.loss);
  }

  static void drop_final(Case& c, size_t k) {
    const NodeId target = c.plan.finals[k].first;
    c.plan.finals.erase(c.plan.finals.begin() + long(k));
    std::erase_if(c.model.program.updates, [&](const Update& u) { return u.target == target; });
  }

  /// Readers of a movement's result read its operand; of a computation nobody may read the result.
  static void drop_instruction(Case& c, size_t k) {
    if (k >= c.plan.instructions.size()) return;
    const Instruction gone = c.plan.instructions[k];
    if (used(c.plan, gone.result) && gone.opcode == Opcode::compute) return;
    c.plan.instructions.erase(c.plan.instructions.begin() + long(k));
    if (gone.opcode == Opcode::compute)
      std::erase_if(c.plan.carried, [&](const auto& pair) { return pair.first == gone.node; });
    if (gone.opcode != Opcode::compute)
      each_value(c.plan, [&](ValueId& v) {
        if (v == gone.result) v = gone.operands[0];
      });
    drop_value(c.plan, gone.result);
  }

  static void drop_leaf(Case& c, size_t k) {
    const ValueId v = c.plan.leaves[k];
    if (used(c.plan, v)) return;
    c.plan.leaves.erase(c.plan.leaves.begin() + long(k));
    drop_value(c.plan, v);
  }

  /// A node that neither the plan nor the program mentions.
  static void drop_node(Case& c, size_t k) {
    Program& r = c.model.program;
    const NodeId gone = NodeId(k);
    bool mentioned = r.loss == gone;
    for (const Value& v : c.plan.values) mentioned |= v.node == gone;
    for (const Node& node : r.nodes) mentioned |= std::ranges::count(node.inputs, gone) > 0;
    for (const Update& u : r.updates) mentioned |= u.target == gone || u.value == gone;
    for (const TurnLoop& loop : r.loops)
      for (const TurnLoop::Carry& carry : loop.carries) mentioned |= carry.carry == gone || carry.next == gone;
    if (mentioned) return;
    const auto shift = [&](NodeId& id) { id -= id > gone; };
    r.nodes.erase(r.nodes.begin() + gone);
    for (Node& node : r.nodes) {
      shift(node.id);
      for (NodeId& input : node.inputs) shift(input);
    }
    for (Update& u : r.updates) shift(u.target), shift(u.value);
    for (TurnLoop& loop : r.loops)
      for (TurnLoop::Carry& carry : loop.carries) shift(carry.carry), shift(carry.next);
    if (r.loss >= 0) shift(r.loss);
    for (Value& v : c.plan.values) shift(v.node);
    for (Instruction& i : c.plan.instructions)
      if (i.node >= 0) shift(i.node);
    for (auto& [node, v] : c.plan.finals) shift(node);
    for (auto& [node, v] : c.plan.carried) shift(node);
  }

  /// Visits every table that the plan names.
  static void each_table(SpmdProgram& p, const std::function<void(int&)>& visit) {
    for (Value& v : p.values)
      for (Placement& q : v.placements) visit(q.table);
    for (Instruction& i : p.instructions) {
      visit(i.table), visit(i.to_table);
      for (Split& s : i.splits) visit(s.table);
    }
  }

  static void drop_table(Case& c, size_t k) {
    bool named = false;
    each_table(c.plan, [&](int& t) { named |= t == int(k); });
    if (named) return;
    each_table(c.plan, [&](int& t) { t -= t > int(k); });
    c.plan.tables.erase(c.plan.tables.begin() + long(k));
  }

  /// An axis over which nothing is divided and nothing moves.
  static void drop_axis(Case& c, size_t k) {
    SpmdProgram& p = c.plan;
    bool needed = p.mesh.axes.size() == 1;
    for (const BoundaryTable& t : p.tables) needed |= t.axis == int(k) || t.by == int(k);
    for (const Instruction& i : p.instructions)
      needed |= i.axis == int(k) || (!i.splits.empty() && i.splits[k] != Split{});
    for (const Value& v : p.values) needed |= v.placements[k] != Placement{};
    if (needed) return;
    const auto shift = [&](int& axis) { axis -= axis > int(k); };
    p.mesh.axes.erase(p.mesh.axes.begin() + long(k));
    for (BoundaryTable& t : p.tables) shift(t.axis), shift(t.by);
    for (Value& v : p.values) v.placements.erase(v.placements.begin() + long(k));
    for (Instruction& i : p.instructions) {
      if (i.axis >= 0) shift(i.axis);
      if (!i.splits.empty()) i.splits.erase(i.splits.begin() + long(k));
    }
  }

  Case best_;
  ProofCache& cache_;
  const std::function<bool(const Case&)>& fails_;
};

}  // namespace

Case smaller(Case failing, ProofCache& cache, const std::function<bool(const Case&)>& fails) {
  return Reducer(std::move(failing), cache, fails).run();
}

}  // namespace hetsynth::attack
