#include "tests/attack/grow.h"

#include <algorithm>

#include "dsl/spmd/plan_text.h"
#include "tests/attack/draft.h"
#include "tests/attack/movements.h"

namespace hetsynth::attack {
namespace {

using Kind = Placement::Kind;

class Grower {
 public:
  Grower(Random& random, const Program& reference, SpmdProgram plan, ProofCache& cache)
      : random_(random), r_(reference), d_(random, reference, std::move(plan), cache) {
    if (chance(random, 15)) d_.wild = 1 + int(below(random, 2));
    if (chance(random, 15)) staged_ = int(below(random, d_.axis_count()));
    restless_ = int(below(random, 4));
  }

  std::optional<SpmdProgram> run() {
    for (const Node& node : r_.nodes)
      if (node.leaf() && !leaf(node)) return std::nullopt;
    for (const Node& node : r_.nodes) {
      if (node.leaf()) continue;
      if (node.loop != d_.loop() && !hand_on()) return std::nullopt;
      d_.enter(node.loop);
      move_something();
      if (!make(node)) return std::nullopt;
    }
    if (!hand_on() || !finish()) return std::nullopt;
    return std::move(d_.plan);
  }

  bool wild() const { return d_.wild_added > 0; }

 private:
  size_t axes() const { return size_t(d_.axis_count()); }

  bool leaf(const Node& node) {
    const bool updated = std::ranges::any_of(r_.updates, [&](const Update& u) { return u.target == node.id; });
    const int64_t copies = updated || !chance(random_, 15) ? 1 : 2;
    for (int64_t i = 0; i < copies; ++i) {
      Placements placements(axes());
      for (int tries = 0; tries < 4; ++tries) {
        Placements wish = any_placements(node);
        if (!d_.rules.holdable(node.id, wish)) continue;
        placements = std::move(wish);
        break;
      }
      d_.add_leaf(node.id, placements);
    }
    return true;
  }

  Placements any_placements(const Node& node) {
    Placements out(axes());
    const Shape& shape = node.type.shape;
    for (int a = 0; a < d_.axis_count(); ++a) {
      if (a == staged_ && chance(random_, 50)) {
        out[size_t(a)] = Placement::stage(int(below(random_, d_.plan.mesh.axes[size_t(a)].size)));
        continue;
      }
      if (shape.empty() || chance(random_, 50)) continue;
      const int dim = int(below(random_, int64_t(shape.size()))), table = d_.any_table(a, shape[size_t(dim)]);
      if (table < 0) continue;
      out[size_t(a)] = Placement::sharded(dim, table);
      if (node.kind == NodeKind::input && chance(random_, 15))
        out[size_t(a)] = Placement::overlapping(dim, table, below(random_, 2), 1);
    }
    return out;
  }

  /// Movements that nothing needs.
  void move_something() {
    for (int64_t moves = below(random_, restless_ + 1); moves > 0; --moves) {
      std::vector<ValueId> readable;
      for (ValueId v = 0; v < ValueId(d_.plan.values.size()); ++v)
        if (d_.readable(v)) readable.push_back(v);
      if (readable.empty()) return;
      // What was made last half of the time: chains grow long.
      const ValueId v = chance(random_, 60) ? readable.back() : any_of(random_, readable);
      for (int tries = 0; tries < 3 && any_movement(d_, v) < 0; ++tries) {
      }
    }
  }

  /// Values of the node: one, seldom two; none where a plan may read the same tensor elsewhere.
  bool make(const Node& node) {
    const bool carry = r_.next_of(node.id) >= 0;
    const bool shown = std::ranges::any_of(r_.outputs, [&](const NamedOutput& o) { return o.node == node.id; });
    if (!carry && !shown && !d_.values_of(node.id).empty() && chance(random_, 40)) return true;
    if (compute(node) < 0) return false;
    if (!carry && chance(random_, 8)) compute(node);
    return true;
  }

  ValueId compute(const Node& node) {
    for (int tries = 0; tries < 6; ++tries) {
      Instruction i = started(node);
      for (int a = 0; a < d_.axis_count(); ++a) divide(node, a, i.splits[size_t(a)]);
      const bool guided = chance(random_, 80);
      bool found = true;
      for (size_t j = 0; j < node.inputs.size() && found; ++j) {
        const ValueId v = operand(node, i, int(j), guided);
        i.operands.push_back(v);
        found = v >= 0;
      }
      if (!found) continue;
      if (i.operands.size() > 1 && chance(random_, 4)) std::swap(any_of(random_, i.operands), i.operands[0]);
      if (const ValueId made = d_.try_add(i, word(i)); made >= 0) return made;
    }
    return compute_whole(node);
  }

  Instruction started(const Node& node) const {
    Instruction i;
    i.opcode = Opcode::compute;
    i.node = node.id;
    i.splits.resize(axes());
    return i;
  }

  Placements word(const Instruction& i) const {
    std::string reason;
    const std::optional<Placements> placements = infer_placements(d_.plan, r_, i, &reason);
    return placements.value_or(Placements(axes()));
  }

  ValueId compute_whole(const Node& node) {
    Instruction i = started(node);
    for (NodeId input : node.inputs) {
      const ValueId v = reached(d_, input, Placements(axes()));
      if (v < 0) return -1;
      i.operands.push_back(v);
    }
    return d_.try_add(i, word(i));
  }

  void divide(const Node& node, int axis, Split& split) {
    if (axis == staged_ && chance(random_, 50)) {
      split = Split::on_stage(int(below(random_, d_.plan.mesh.axes[size_t(axis)].size)));
      return;
    }
    const std::vector<Factor>& factors = node.space.factors;
    if (factors.empty() || chance(random_, 35)) return;
    const int f = int(below(random_, int64_t(factors.size())));
    const int table = cutting_table(node, axis, f);
    if (table >= 0 && factors[size_t(f)].kind != FactorKind::whole) split = {f, table};
  }

  /// Half of the time the table by which a value of an input is cut over the axis already.
  int cutting_table(const Node& node, int axis, int factor) {
    const int64_t size = node.space.factors[size_t(factor)].size;
    std::vector<int> met;
    for (NodeId input : node.inputs)
      for (ValueId v : d_.values_of(input)) {
        const Placement& p = d_.placements(v)[size_t(axis)];
        if (p.kind == Kind::sharded && size % d_.plan.tables[size_t(p.table)].extent == 0) met.push_back(p.table);
      }
    if (!met.empty() && chance(random_, 50)) return any_of(random_, met);
    return d_.any_table(axis, size);
  }

  ValueId operand(const Node& node, const Instruction& i, int position, bool guided) {
    const NodeId input = node.inputs[size_t(position)];
    if (d_.latest_wild >= 0 && d_.readable(d_.latest_wild) && chance(random_, 70) &&
        d_.rules.same(d_.plan.values[size_t(d_.latest_wild)].node, input))
      return d_.latest_wild;
    if (d_.wild > 0 && chance(random_, 5))
      if (const ValueId other = another(input); other >= 0) return other;
    if (!guided) {
      const std::vector<ValueId> values = d_.values_of(input);
      return values.empty() ? -1 : any_of(random_, values);
    }
    return reached(d_, input, wanted(node, i, position));
  }

  /// A value of another tensor of the same type; -1 if there is none.
  ValueId another(NodeId input) {
    std::vector<ValueId> fit;
    for (ValueId v = 0; v < ValueId(d_.plan.values.size()); ++v)
      if (d_.readable(v) && d_.node(v).type == r_[input].type && d_.node(v).id != input) fit.push_back(v);
    return fit.empty() ? -1 : any_of(random_, fit);
  }

  /// How the operand has to be held for these splits; over undivided axes sums may stay open.
  Placements wanted(const Node& node, const Instruction& i, int position) {
    Placements out(axes());
    const Access& access = node.space.inputs[size_t(position)];
    const Shape& shape = r_[node.inputs[size_t(position)]].type.shape;
    for (size_t a = 0; a < axes(); ++a) {
      const Split& split = i.splits[a];
      if (split.stage >= 0) {
        if (chance(random_, 60)) out[a] = Placement::stage(split.stage);
      } else if (split.factor < 0) {
        if (any_partial(node.inputs[size_t(position)], int(a)) && chance(random_, 50))
          out[a] = Placement::partial(ReduceOp::sum);
      } else if (const auto cut = cut_of(node.space, access, shape, split.factor)) {
        if (chance(random_, 85)) out[a] = Placement::sharded(cut->dim, split.table);
      } else if (const auto reach = window_cut_of(node.space, access, shape, split.factor)) {
        if (chance(random_, 85))
          out[a] = Placement::overlapping(reach->dim, split.table, reach->before + below(random_, 2), reach->after);
      }
    }
    return out;
  }

  bool any_partial(NodeId input, int axis) const {
    return std::ranges::any_of(d_.values_of(input),
                               [&](ValueId v) { return d_.placements(v)[size_t(axis)].kind == Kind::partial; });
  }

  /// At the end of a loop: what each carry of it takes over, held as the carry is.
  bool hand_on() {
    if (d_.loop() < 0) return true;
    for (const TurnLoop::Carry& c : r_.loops[size_t(d_.loop())].carries) {
      ValueId carry = -1;
      for (const Instruction& i : d_.plan.instructions)
        if (i.opcode == Opcode::compute && i.node == c.carry) carry = i.result;
      if (carry < 0) continue;
      const Placements wish = d_.placements(carry);
      const ValueId next = wrong_result(c.next, reached(d_, c.next, wish, [&](ValueId v) { return made_in_turn(v); }));
      if (next < 0) return false;
      d_.plan.carried.push_back({c.carry, next});
    }
    d_.enter(-1);
    return true;
  }

  /// Now and then, in place of the right value of a result, any of its tensor, or of another one.
  ValueId wrong_result(NodeId node, ValueId right) {
    if (right < 0 || d_.wild_added >= d_.wild || !chance(random_, 15)) return right;
    const std::vector<ValueId> values = d_.values_of(node);
    const ValueId other = chance(random_, 60) ? any_of(random_, values) : another(node);
    if (other < 0 || other == right) return right;
    ++d_.wild_added;
    return other;
  }

  bool made_in_turn(ValueId v) const {
    for (const Instruction& i : d_.plan.instructions)
      if (i.result == v)
        return loop_of(r_, d_.plan, i) == d_.loop() && !(i.opcode == Opcode::compute && r_.next_of(i.node) >= 0);
    return false;
  }

  bool finish() {
    move_something();
    if (r_.loss >= 0 && (d_.plan.loss = wrong_result(r_.loss, reached(d_, r_.loss, Placements(axes())))) < 0)
      return false;
    for (const NamedOutput& output : r_.outputs) {
      const bool forgotten = d_.wild_added < d_.wild && chance(random_, 50);
      d_.wild_added += forgotten;
      const auto its_own = [&](ValueId v) { return d_.plan.values[size_t(v)].node == output.node; };
      if (!forgotten && reached(d_, output.node, Placements(axes()), its_own) < 0) return false;
    }
    for (const Update& u : r_.updates) {
      Placements home;
      for (ValueId leaf : d_.plan.leaves)
        if (d_.plan.values[size_t(leaf)].node == u.target) home = d_.placements(leaf);
      const ValueId v = wrong_result(u.value, reached(d_, u.value, home));
      if (v < 0) return false;
      d_.plan.finals.push_back({u.target, v});
    }
    return true;
  }

  Random& random_;
  const Program& r_;
  Draft d_;
  int staged_ = -1;   ///< the axis that has stages
  int restless_ = 0;  ///< movements between two computations at most
};

}  // namespace

std::optional<Case> grow(Random& random, Model model, ProofCache& cache) {
  SpmdProgram plan;
  plan.mesh = random_mesh(random);
  plan.tables = random_tables(random, model.program, plan.mesh);
  Grower grower(random, model.program, std::move(plan), cache);
  std::optional<SpmdProgram> grown = grower.run();
  if (!grown) return std::nullopt;
  return Case{std::move(model), std::move(*grown), grower.wild()};
}

}  // namespace hetsynth::attack
