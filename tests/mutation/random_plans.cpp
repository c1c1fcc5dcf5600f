#include "tests/mutation/random_plans.h"

#include <algorithm>
#include <optional>

namespace hetsynth::test {

namespace {

/// Uniform below n; 0 where there is nothing to choose from.
int64_t below(Random& random, int64_t n) { return n > 0 ? int64_t(random() % uint64_t(n)) : 0; }

/// Letters name extents, so that tensors fit together often.
struct Lettered {
  std::string name;
  std::string letters;
};

constexpr char letters[] = "abc";
int64_t extent_of(char letter) { return letter == 'a' ? 6 : letter == 'b' ? 4 : 5; }

class ProgramMaker {
 public:
  ProgramMaker(Random& random, int operations) : random_(random) {
    for (int i = 0; i < 3; ++i) {
      std::string l = i == 0 ? "ab" : i == 1 ? "bc" : "ac";
      std::string name = std::string("w") + char('0' + i);
      builder_.leaf(name, i == 0 ? NodeKind::input : NodeKind::parameter, shape(l));
      have_.push_back({name, l});
    }
    for (int i = 0; i < operations; ++i) add("t" + std::to_string(i));
    finish();
  }
  Program take() { return builder_.program; }

 private:
  Shape shape(const std::string& l) const {
    Shape out;
    for (char c : l) out.push_back(extent_of(c));
    return out;
  }

  const Lettered& any() { return have_[size_t(below(random_, int64_t(have_.size())))]; }

  /// A tensor with these letters in this order, or the argument itself.
  const Lettered& like(const Lettered& other) {
    for (int tries = 0; tries < 6; ++tries)
      if (const Lettered& t = any(); t.letters == other.letters) return t;
    return other;
  }

  void made(const std::string& name, const std::string& l) { have_.push_back({name, l}); }

  void add(const std::string& name) {
    Expr a = Expr::input(0), b = Expr::input(1);
    Lettered t = any();
    switch (below(random_, 9)) {
      case 0:
        return contraction(name);
      case 1: {
        Lettered u = like(t);
        Expr bodies[] = {a + b, a * b, a - b, maximum(a, b)};
        builder_.general(name, t.letters + "," + u.letters + "->" + t.letters, {t.name, u.name},
                         bodies[below(random_, 4)]);
        return made(name, t.letters);
      }
      case 2: {
        Expr bodies[] = {tanh(a), select(less(0.0, a), a, 0.0), a * 0.5, -a, a + 1.0};
        builder_.general(name, t.letters + "->" + t.letters, {t.name}, bodies[below(random_, 5)]);
        return made(name, t.letters);
      }
      case 3:
      case 4: {  // a reduction, or a transposition
        std::string to = t.letters;
        std::shuffle(to.begin(), to.end(), random_);
        if (!to.empty() && below(random_, 3)) to.pop_back();
        builder_.general(name, t.letters + "->" + to, {t.name}, below(random_, 2) ? a : a * 0.25,
                         below(random_, 2) ? FactorKind::sum : FactorKind::max);
        return made(name, to);
      }
      case 5: {  // something that depends on the position
        if (t.letters.size() < 2) return add_scaled(name, t);
        Expr f0 = Expr::factor(0), f1 = Expr::factor(1);
        Expr bodies[] = {select(less_equal(f1, f0), a, 0.0), a * (f0 + 1.0),
                         select(less(Expr::random(1), 0.5), a, 0.0)};
        builder_.general(name, t.letters + "->" + t.letters, {t.name}, bodies[below(random_, 3)]);
        return made(name, t.letters);
      }
      case 6:
        return reshaped(name, t);
      case 7:
        return shifted(name, t);
      default: {
        Lettered u = any();
        for (char c : u.letters)
          if (t.letters.find(c) == std::string::npos) return add_scaled(name, t);
        builder_.general(name, t.letters + "," + u.letters + "->" + t.letters, {t.name, u.name},
                         below(random_, 2) ? a * b : a + b);
        return made(name, t.letters);
      }
    }
  }

  void add_scaled(const std::string& name, const Lettered& t) {
    builder_.general(name, t.letters + "->" + t.letters, {t.name}, Expr::input(0) * 2.0);
    made(name, t.letters);
  }

  void contraction(const std::string& name) {
    Lettered t = any(), u = any();
    std::string out;
    for (char c : letters)
      if (c && (t.letters.find(c) == std::string::npos) != (u.letters.find(c) == std::string::npos)) out += c;
    if (out.size() > 2 || t.letters.empty() || u.letters.empty()) return add_scaled(name, t);
    builder_.einsum(name, t.letters + "," + u.letters + "->" + out, t.name, u.name);
    made(name, out);
  }

  /// There and back: two dimensions as one, then the sum over the second digit.
  void reshaped(const std::string& name, const Lettered& t) {
    if (t.letters.size() != 2) return add_scaled(name, t);
    int64_t outer = extent_of(t.letters[0]), inner = extent_of(t.letters[1]);
    DimIndex both{{IndexTerm{0, inner}, IndexTerm{1, 1}}, 0};
    Space flat;
    flat.factors = {{"o", outer, FactorKind::parallel}, {"i", inner, FactorKind::parallel}};
    flat.inputs = {Access{{index_by(0), index_by(1)}, false}};
    flat.output = Access{{both}, false};
    builder_.custom(name + "f", {t.name}, flat, Expr::input(0), {outer * inner});
    Space back;
    back.factors = {{"o", outer, FactorKind::parallel}, {"i", inner, FactorKind::sum}};
    back.inputs = {Access{{both}, false}};
    back.output = Access{{index_by(0)}, false};
    builder_.custom(name, {name + "f"}, back, Expr::input(0), {outer});
    made(name, t.letters.substr(0, 1));
  }

  /// The first dimension moved by one, zero coming in.
  void shifted(const std::string& name, const Lettered& t) {
    if (t.letters.empty()) return add_scaled(name, t);
    Space space;
    Access in, out;
    for (size_t d = 0; d < t.letters.size(); ++d) {
      space.factors.push_back({std::string(1, t.letters[d]), extent_of(t.letters[d]), FactorKind::parallel});
      in.dims.push_back(index_by(int(d)));
      out.dims.push_back(index_by(int(d)));
    }
    in.dims[0].offset = -1;
    in.zero_outside = true;
    space.inputs = {in};
    space.output = out;
    builder_.custom(name, {t.name}, space, Expr::input(0), shape(t.letters));
    made(name, t.letters);
  }

  /// The loss sums the last tensors; each parameter moves by a tensor of its shape.
  void finish() {
    const Lettered last = have_.back();
    builder_.program.loss = builder_.general("loss", last.letters + "->", {last.name}, tanh(Expr::input(0)));
    for (const char* w : {"w1", "w2"}) {
      const Lettered self = *std::find_if(have_.begin(), have_.end(), [&](const Lettered& t) { return t.name == w; });
      Lettered by = self;
      for (const Lettered& t : have_)
        if (t.letters == self.letters) by = t;
      builder_.general(std::string(w) + "_new", self.letters + "," + by.letters + "->" + self.letters, {w, by.name},
                       Expr::input(0) - 0.1 * Expr::input(1));
      builder_.update(w, std::string(w) + "_new");
    }
  }

  Random& random_;
  ProgramBuilder builder_;
  std::vector<Lettered> have_;
};

class PlanMaker {
 public:
  PlanMaker(Random& random, const Program& reference) : random_(random), r_(reference), b_(reference, axes(random)) {
    for (int a = 0; a < axis_count(); ++a)
      for (int64_t extent : {6, 4, 5, 2, 3}) {
        add_table(a, extent);
        add_table(a, extent);
      }
  }

  SpmdProgram make() {
    for (const Node& node : r_.nodes) current_[node.id] = node.leaf() ? leaf(node) : compute(node);
    b_.plan.loss = moved(current_[r_.loss], Placements(size_t(axis_count())));
    for (const Update& u : r_.updates)
      b_.plan.finals.push_back({u.target, moved(current_[u.value], leaf_placements_[u.target])});
    return b_.plan;
  }

 private:
  static std::vector<Mesh::Axis> axes(Random& random) {
    std::vector<Mesh::Axis> axes{{"u", 2 + int(below(random, 2))}};
    if (below(random, 2)) axes.push_back({"v", 2});
    return axes;
  }
  int axis_count() const { return int(b_.plan.mesh.axes.size()); }

  void add_table(int axis, int64_t extent) {
    int devices = b_.plan.mesh.axes[axis].size;
    std::vector<int64_t> bounds{0};
    for (int i = 1; i < devices; ++i) bounds.push_back(below(random_, extent + 1));
    bounds.push_back(extent);
    std::sort(bounds.begin(), bounds.end());
    b_.table("t" + std::to_string(b_.plan.tables.size()), axis, extent, bounds);
  }

  /// A table of the axis that divides the extent; -1 if there is none.
  int any_table(int axis, int64_t extent) {
    std::vector<int> fit;
    for (size_t t = 0; t < b_.plan.tables.size(); ++t)
      if (b_.plan.tables[t].axis == axis && extent % b_.plan.tables[t].extent == 0) fit.push_back(int(t));
    return fit.empty() ? -1 : fit[size_t(below(random_, int64_t(fit.size())))];
  }

  Placements any_placements(const Shape& shape) {
    Placements out(static_cast<size_t>(axis_count()));
    std::vector<bool> cut(shape.size(), false);
    for (int a = 0; a < axis_count(); ++a) {
      if (shape.empty() || below(random_, 2)) continue;
      int dim = int(below(random_, int64_t(shape.size()))), table = any_table(a, shape[dim]);
      if (cut[dim] || table < 0) continue;
      cut[dim] = true;
      out[a] = Placement::sharded(dim, table);
    }
    return out;
  }

  ValueId leaf(const Node& node) {
    Placements placements = any_placements(node.type.shape);
    leaf_placements_[node.id] = placements;
    return b_.leaf(node.name, placements);
  }

  /// Now and then by reduce-scatter where there is a choice.
  ValueId moved(ValueId from, const Placements& wanted) {
    return b_.moved(from, wanted, [&](int) { return below(random_, 2) != 0; });
  }

  ValueId compute(const Node& node) {
    std::vector<std::pair<std::string, int>> splits(size_t(axis_count()), {"", -1});
    std::vector<Placements> wanted(node.inputs.size(), Placements(size_t(axis_count())));
    std::set<int> used;
    for (int a = 0; a < axis_count(); ++a) {
      int f = int(below(random_, int64_t(node.space.factors.size()) + 1));
      if (f < int(node.space.factors.size()) && !used.count(f) && divide(node, a, f, splits, wanted))
        used.insert(f);
      else
        pass_partial(node, a, wanted);
    }
    std::vector<ValueId> operands;
    for (size_t j = 0; j < node.inputs.size(); ++j) operands.push_back(moved(current_[node.inputs[j]], wanted[j]));
    ValueId direct = try_compute(node, operands, splits);
    if (direct >= 0) return direct;
    // The random wish has no rule: compute it whole on every device.
    for (size_t j = 0; j < node.inputs.size(); ++j)
      operands[j] = moved(current_[node.inputs[j]], Placements(size_t(axis_count())));
    return b_.compute(node.name, operands);
  }

  ValueId try_compute(const Node& node, const std::vector<ValueId>& operands,
                      const std::vector<std::pair<std::string, int>>& splits) {
    SpmdProgram before = b_.plan;
    ValueId v = b_.compute(node.name, operands, splits);
    std::string reason;
    if (infer_placements(b_.plan, r_, b_.plan.instructions.back(), &reason)) return v;
    b_.plan = before;
    return -1;
  }

  bool divide(const Node& node, int axis, int f, std::vector<std::pair<std::string, int>>& splits,
              std::vector<Placements>& wanted) {
    const Factor& factor = node.space.factors[f];
    int table = any_table(axis, factor.size);
    bool cuts = factor.reduced() || cut_of(node.space, node.space.output, node.type.shape, f);
    if (table < 0 || factor.kind == FactorKind::whole || !cuts) return false;
    splits[axis] = {factor.name, table};
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      auto cut = cut_of(node.space, node.space.inputs[j], r_[node.inputs[j]].type.shape, f);
      if (cut && below(random_, 4)) wanted[j][axis] = Placement::sharded(cut->dim, table);
    }
    return true;
  }

  /// Now and then a partial operand is left partial where the body is additive in it.
  void pass_partial(const Node& node, int axis, std::vector<Placements>& wanted) {
    for (size_t j = 0; j < node.inputs.size(); ++j) {
      const Placement& p = b_.plan.values[current_[node.inputs[j]]].placements[axis];
      bool sum = p.kind == Placement::Kind::partial && p.reduce == ReduceOp::sum;
      if (sum && linearity(node.body, {int(j)}) == Linearity::linear && node.space.reduction() != FactorKind::max)
        wanted[j][axis] = p;
    }
  }

  Random& random_;
  const Program& r_;
  PlanBuilder b_;
  std::map<NodeId, ValueId> current_;
  std::map<NodeId, Placements> leaf_placements_;
};

int pick(Random& random, const std::vector<int>& from) {
  return from.empty() ? -1 : from[size_t(below(random, int64_t(from.size())))];
}

std::vector<int> instructions_of(const SpmdProgram& plan, bool compute) {
  std::vector<int> out;
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if ((plan.instructions[i].opcode == Opcode::compute) == compute) out.push_back(int(i));
  return out;
}

}  // namespace

Program random_program(Random& random, int operations) { return ProgramMaker(random, operations).take(); }

SpmdProgram random_plan(Random& random, const Program& reference) { return PlanMaker(random, reference).make(); }

void mutate(Random& random, SpmdProgram& plan, const Program& reference) {
  int movement = pick(random, instructions_of(plan, false)), compute = pick(random, instructions_of(plan, true));
  int table = int(below(random, int64_t(plan.tables.size())));
  if (movement < 0 || compute < 0) return;
  Instruction &m = plan.instructions[movement], &c = plan.instructions[compute];
  switch (below(random, 13)) {
    case 0:
      return drop(plan, movement);
    case 1:
      m.reduce = ReduceOp(below(random, 5));
      return;
    case 2:
      m.table = table;
      return;
    case 3:
      m.axis = int(below(random, int64_t(plan.mesh.axes.size())));
      return;
    case 4:
      m.dim = int(below(random, 2));
      return;
    case 5: {  // another value of the same shape
      ValueId& operand = c.operands[size_t(below(random, int64_t(c.operands.size())))];
      ValueId other = ValueId(below(random, int64_t(plan.values.size())));
      if (reference[plan.values[other].node].type == reference[plan.values[operand].node].type) operand = other;
      return;
    }
    case 6:
      std::reverse(c.operands.begin(), c.operands.end());
      return;
    case 7:
      c.splits[size_t(below(random, int64_t(c.splits.size())))].table = table;
      return;
    case 8:
      c.splits[size_t(below(random, int64_t(c.splits.size())))] = {};
      return;
    case 9: {
      Split& s = c.splits[size_t(below(random, int64_t(c.splits.size())))];
      s = {int(below(random, int64_t(reference[c.node].space.factors.size()))), table};
      return;
    }
    case 10:
      m.opcode = Opcode(1 + below(random, 7));
      if (m.table < 0) m.table = table;
      if (m.to_table < 0) m.to_table = table;
      m.dim = std::max(m.dim, 0), m.to_dim = std::max(m.to_dim, 0);
      return;
    case 11:
      if (compute + 1 < int(plan.instructions.size())) std::swap(c, plan.instructions[compute + 1]);
      return;
    default:
      plan.finals[size_t(below(random, int64_t(plan.finals.size())))].second =
          ValueId(below(random, int64_t(plan.values.size())));
  }
}

void corrupt(Random& random, SpmdProgram& plan) {
  const int64_t nonsense[] = {-1, -7, 0, 1, 2, 3, 100, 1 << 30, INT32_MIN, INT32_MAX};
  auto number = [&] { return int(nonsense[below(random, 10)]); };
  auto wide = [&] { return below(random, 4) ? int64_t(number()) : (below(random, 2) ? INT64_MAX : INT64_MIN); };
  auto any = [&](auto& items) -> decltype(&items[0]) {
    return items.empty() ? nullptr : &items[size_t(below(random, int64_t(items.size())))];
  };
  Instruction* i = any(plan.instructions);
  Value* v = any(plan.values);
  BoundaryTable* t = any(plan.tables);
  switch (below(random, 20)) {
    case 0:
      if (i) i->result = number();
      return;
    case 1:
      if (i && !i->operands.empty()) *any(i->operands) = number();
      return;
    case 2:
      if (i) i->operands.resize(size_t(below(random, 5)), number());
      return;
    case 3:
      if (i) i->node = number();
      return;
    case 4:
      if (i && !i->splits.empty()) *any(i->splits) = {number(), number()};
      return;
    case 5:
      if (i) i->splits.resize(size_t(below(random, 4)), {number(), number()});
      return;
    case 6:
      if (i) i->axis = number();
      return;
    case 7:
      if (i) i->dim = number(), i->to_dim = number();
      return;
    case 8:
      if (i) i->table = number(), i->to_table = number();
      return;
    case 9:
      if (i) i->opcode = Opcode(below(random, 256));
      return;
    case 10:
      if (i) i->reduce = ReduceOp(below(random, 256)), i->realisation = Realisation(below(random, 256));
      return;
    case 11:
      if (i) i->root = number();
      return;
    case 12:
      if (v) v->node = number();
      return;
    case 13:
      if (v) v->placements.resize(size_t(below(random, 4)));
      return;
    case 14:
      if (v && !v->placements.empty())
        *any(v->placements) = {Placement::Kind(below(random, 4)), number(), number(), ReduceOp(below(random, 6))};
      return;
    case 15:
      if (t && !t->bounds.empty()) *any(t->bounds) = wide();
      return;
    case 16:
      if (t) t->extent = wide(), t->axis = number();
      return;
    case 17:
      if (!plan.mesh.axes.empty()) any(plan.mesh.axes)->size = number();
      return;
    case 18:
      plan.loss = number();
      return;
    default:
      if (!plan.finals.empty()) *any(plan.finals) = {number(), number()};
      if (!plan.leaves.empty()) *any(plan.leaves) = number();
  }
}

}  // namespace hetsynth::test
