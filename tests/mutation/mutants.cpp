#include "tests/mutation/mutants.h"

#include <algorithm>
#include <set>

namespace hetsynth::mutation {
namespace {

bool moves(const Instruction& i) { return i.opcode != Opcode::compute; }

/// One plan on its way to mutants.
class Workshop {
 public:
  using Take = std::function<bool(Mutant)>;
  Workshop(const Program& reference, const SpmdProgram& plan, const Take& take)
      : r_(reference), p_(plan), take_(take) {}

  const Program& r_;
  const SpmdProgram& p_;

  bool stopped() const { return stopped_; }

  /// Hands a changed plan on, its claims brought into line.
  void give(const std::string& kind, const std::string& place, SpmdProgram plan, bool equal = false,
            bool reclaimed = true) {
    if (stopped_ || plan == p_) return;
    if (reclaimed) reclaim(plan);
    stopped_ = !take_({kind, place, std::move(plan), equal});
  }

  std::string name(ValueId v) const { return r_[p_.values[size_t(v)].node].name; }

  /// Every instruction of these opcodes.
  template <class Visit>
  void each(const std::set<Opcode>& opcodes, Visit visit) const {
    for (size_t i = 0; i < p_.instructions.size() && !stopped_; ++i)
      if (opcodes.count(p_.instructions[i].opcode)) visit(i, p_.instructions[i]);
  }

  /// Inserts an instruction behind another; readers of its operand behind it, finals and loss read its result instead.
  static ValueId insert(SpmdProgram& plan, size_t behind, Instruction i, Placements placements) {
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

  /// Takes an instruction out; its readers read its operand.
  static void drop(SpmdProgram& plan, size_t at) {
    ValueId from = plan.instructions[at].operands[0], gone = plan.instructions[at].result;
    plan.instructions.erase(plan.instructions.begin() + long(at));
    for (Instruction& i : plan.instructions)
      for (ValueId& operand : i.operands)
        if (operand == gone) operand = from;
    for (auto& final : plan.finals)
      if (final.second == gone) final.second = from;
    if (plan.loss == gone) plan.loss = from;
  }

  /// A table of the same axis and extent that cuts elsewhere; -1 if there is no other way to cut.
  static int other_table(SpmdProgram& plan, int table) {
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

 private:
  /// What the rules say of every result, as far as they say anything.
  void reclaim(SpmdProgram& plan) const {
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
        case Opcode::to_partial:
          to[size_t(i.axis)] = Placement::partial(ReduceOp::sum);
          break;
        default:
          to[size_t(i.axis)] = Placement::replicated();
      }
      value.placements = to;
    }
  }

  const Take& take_;
  bool stopped_ = false;
};

using Kind = void (*)(Workshop&, const std::string&);

struct Entry {
  const char* name;
  Kind apply;
};

template <Opcode opcode>
void dropped(Workshop& w, const std::string& kind) {
  w.each({opcode}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Workshop::drop(plan, at);
    w.give(kind, w.name(i.result), plan);
  });
}

template <ReduceOp op>
void reduced_by(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce, Opcode::reduce_scatter}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].reduce = op;
    w.give(kind, w.name(i.result), plan);
  });
}

template <Opcode from, Opcode to>
void replaced(Workshop& w, const std::string& kind) {
  w.each({from}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].opcode = to;
    w.give(kind, w.name(i.result), plan);
  });
}

void reduced_twice(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    again.operands = {i.result};
    Workshop::insert(plan, at, again, plan.values[size_t(i.result)].placements);
    w.give(kind, w.name(i.result), plan);
  });
}

void wrong_axis(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce, Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::broadcast},
         [&](size_t at, const Instruction& i) {
           for (int axis = 0; axis < int(w.p_.mesh.axes.size()); ++axis) {
             if (axis == i.axis) continue;
             SpmdProgram plan = w.p_;
             plan.instructions[at].axis = axis;
             w.give(kind, w.name(i.result), plan);
           }
         });
}

void wrong_table(Workshop& w, const std::string& kind) {
  w.each({Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::all_to_all},
         [&](size_t at, const Instruction& i) {
           SpmdProgram plan = w.p_;
           int other = Workshop::other_table(plan, i.table);
           if (other < 0) return;
           plan.instructions[at].table = other;
           w.give(kind, w.name(i.result), plan);
         });
}

void wrong_dim(Workshop& w, const std::string& kind) {
  w.each({Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::all_to_all},
         [&](size_t at, const Instruction& i) {
           const Shape& shape = w.r_[w.p_.values[size_t(i.result)].node].type.shape;
           for (int dim = 0; dim < int(shape.size()); ++dim) {
             if (dim == i.dim || shape[size_t(dim)] != shape[size_t(i.dim)]) continue;
             SpmdProgram plan = w.p_;
             plan.instructions[at].dim = dim;
             w.give(kind, w.name(i.result), plan);
           }
         });
}

void split_by_another_table(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      SpmdProgram plan = w.p_;
      int other = Workshop::other_table(plan, i.splits[a].table);
      if (other < 0) continue;
      plan.instructions[at].splits[a].table = other;
      w.give(kind, w.name(i.result), plan);
    }
  });
}

void split_forgotten(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].splits[a] = {};
      w.give(kind, w.name(i.result), plan);
    }
  });
}

void another_factor_split(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    const std::vector<Factor>& factors = w.r_[i.node].space.factors;
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      for (int f = 0; f < int(factors.size()); ++f) {
        if (f == i.splits[a].factor || factors[size_t(f)].size % w.p_.tables[size_t(i.splits[a].table)].extent)
          continue;
        SpmdProgram plan = w.p_;
        plan.instructions[at].splits[a].factor = f;
        w.give(kind, w.name(i.result), plan);
      }
    }
  });
}

void gap(Workshop& w, const std::string& kind) {
  for (size_t t = 0; t < w.p_.tables.size(); ++t) {
    SpmdProgram plan = w.p_;
    plan.tables[t].bounds.back() -= 1;
    w.give(kind, plan.tables[t].name, plan);
  }
}

void overlap(Workshop& w, const std::string& kind) {
  for (size_t t = 0; t < w.p_.tables.size(); ++t)
    for (size_t b = 1; b + 1 < w.p_.tables[t].bounds.size(); ++b) {
      SpmdProgram plan = w.p_;
      if (plan.tables[t].bounds[b] == plan.tables[t].bounds[b + 1]) continue;
      plan.tables[t].bounds[b] = plan.tables[t].bounds[b + 1] + 1;
      w.give(kind, plan.tables[t].name, plan);
    }
}

void operands_swapped(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t j = 0; j + 1 < i.operands.size(); ++j) {
      SpmdProgram plan = w.p_;
      std::swap(plan.instructions[at].operands[j], plan.instructions[at].operands[j + 1]);
      w.give(kind, w.name(i.result), plan);
    }
  });
}

/// The last value of the same type that was made before.
void another_operand(Workshop& w, const std::string& kind) {
  std::vector<ValueId> before(w.p_.leaves);
  for (size_t at = 0; at < w.p_.instructions.size() && !w.stopped(); ++at) {
    const Instruction& i = w.p_.instructions[at];
    for (size_t j = 0; j < i.operands.size(); ++j) {
      const Value& right = w.p_.values[size_t(i.operands[j])];
      for (size_t k = before.size(); k-- > 0;) {
        const Value& wrong = w.p_.values[size_t(before[k])];
        if (wrong.node == right.node || !(w.r_[wrong.node].type == w.r_[right.node].type) ||
            wrong.placements != right.placements)
          continue;
        SpmdProgram plan = w.p_;
        plan.instructions[at].operands[j] = before[k];
        w.give(kind, w.name(i.result), plan);
        break;
      }
    }
    before.push_back(i.result);
  }
}

/// A compute instruction reads what a collective was given instead of what it made.
void read_before_collective(Workshop& w, const std::string& kind) {
  std::vector<int> maker(w.p_.values.size(), -1);
  for (size_t i = 0; i < w.p_.instructions.size(); ++i) maker[size_t(w.p_.instructions[i].result)] = int(i);
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t j = 0; j < i.operands.size(); ++j) {
      int made = maker[size_t(i.operands[j])];
      if (made < 0 || !moves(w.p_.instructions[size_t(made)])) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[j] = w.p_.instructions[size_t(made)].operands[0];
      w.give(kind, w.name(i.result), plan);
    }
  });
}

/// The new contents of a parameter where the step still needs the old ones: its update moves before the reader.
void updated_too_early(Workshop& w, const std::string& kind) {
  for (const auto& [target, value] : w.p_.finals) {
    ValueId leaf = -1;
    for (ValueId l : w.p_.leaves)
      if (w.p_.values[size_t(l)].node == target) leaf = l;
    size_t last = 0;
    for (size_t at = 0; at < w.p_.instructions.size(); ++at)
      if (w.p_.instructions[at].result == value) last = at;
    // A reader behind the update, or after all.
    for (size_t at = 0; at < w.p_.instructions.size(); ++at) {
      const Instruction& i = w.p_.instructions[at];
      auto reads = std::find(i.operands.begin(), i.operands.end(), leaf);
      if (reads == i.operands.end() || at < last || i.result == value) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[size_t(reads - i.operands.begin())] = value;
      w.give(kind, w.name(i.result), plan);
    }
  }
}

void used_before_defined(Workshop& w, const std::string& kind) {
  for (size_t at = 0; at + 1 < w.p_.instructions.size() && !w.stopped(); ++at) {
    const Instruction& next = w.p_.instructions[at + 1];
    ValueId made = w.p_.instructions[at].result;
    if (!std::count(next.operands.begin(), next.operands.end(), made)) continue;
    SpmdProgram plan = w.p_;
    std::swap(plan.instructions[at], plan.instructions[at + 1]);
    w.give(kind, w.name(made), plan);
  }
}

void wrong_node(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    const Node& node = w.r_[i.node];
    for (const Node& other : w.r_.nodes) {
      if (other.leaf() || other.id == node.id || other.inputs.size() != node.inputs.size() ||
          !(other.type == node.type) || other.space.factors.size() != node.space.factors.size())
        continue;
      bool fits = true;
      for (size_t j = 0; j < node.inputs.size(); ++j)
        fits = fits && w.r_[other.inputs[j]].type == w.r_[node.inputs[j]].type;
      if (!fits) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].node = other.id;
      w.give(kind, w.name(i.result), plan);
      break;
    }
  });
}

void update_forgotten(Workshop& w, const std::string& kind) {
  for (size_t f = 0; f < w.p_.finals.size(); ++f) {
    SpmdProgram plan = w.p_;
    plan.finals.erase(plan.finals.begin() + long(f));
    w.give(kind, w.r_[w.p_.finals[f].first].name, plan);
  }
}

void updates_exchanged(Workshop& w, const std::string& kind) {
  for (size_t f = 0; f < w.p_.finals.size(); ++f)
    for (size_t g = f + 1; g < w.p_.finals.size(); ++g) {
      if (!(w.r_[w.p_.finals[f].first].type == w.r_[w.p_.finals[g].first].type)) continue;
      SpmdProgram plan = w.p_;
      std::swap(plan.finals[f].second, plan.finals[g].second);
      w.give(kind, w.r_[w.p_.finals[f].first].name, plan);
      break;
    }
}

void update_is_old(Workshop& w, const std::string& kind) {
  for (size_t f = 0; f < w.p_.finals.size(); ++f)
    for (ValueId leaf : w.p_.leaves) {
      if (w.p_.values[size_t(leaf)].node != w.p_.finals[f].first) continue;
      SpmdProgram plan = w.p_;
      plan.finals[f].second = leaf;
      w.give(kind, w.r_[w.p_.finals[f].first].name, plan);
    }
}

void update_not_gathered(Workshop& w, const std::string& kind) {
  for (size_t f = 0; f < w.p_.finals.size(); ++f)
    for (const Instruction& i : w.p_.instructions) {
      if (i.result != w.p_.finals[f].second || !moves(i)) continue;
      SpmdProgram plan = w.p_;
      plan.finals[f].second = i.operands[0];
      w.give(kind, w.r_[w.p_.finals[f].first].name, plan);
    }
}

void local_loss(Workshop& w, const std::string& kind) {
  for (const Instruction& i : w.p_.instructions) {
    if (i.result != w.p_.loss || !moves(i)) continue;
    SpmdProgram plan = w.p_;
    plan.loss = i.operands[0];
    w.give(kind, w.name(i.result), plan);
  }
}

void wrong_word(Workshop& w, const std::string& kind) {
  for (size_t v = 0; v < w.p_.values.size() && !w.stopped(); ++v)
    for (size_t a = 0; a < w.p_.mesh.axes.size(); ++a) {
      const Placement& at = w.p_.values[v].placements[a];
      if (w.p_.mesh.axes[a].size == 1 || at.kind == Placement::Kind::replicated) continue;
      SpmdProgram plan = w.p_;
      plan.values[v].placements[a] = Placement::replicated();
      w.give(kind, w.p_.values[v].name, plan, false, /*reclaimed=*/false);
    }
}

void defined_twice(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute, Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions.insert(plan.instructions.begin() + long(at), i);
    w.give(kind, w.name(i.result), plan);
  });
}

void ranks_permuted(Workshop& w, const std::string& kind) {
  for (size_t a = 0; a + 1 < w.p_.mesh.axes.size(); ++a) {
    SpmdProgram plan = w.p_;
    if (plan.mesh.axes[a].size == plan.mesh.axes[a + 1].size) continue;
    std::swap(plan.mesh.axes[a].size, plan.mesh.axes[a + 1].size);
    w.give(kind, plan.mesh.axes[a].name, plan);
  }
}

// ---- changes that leave the plan right ----

void another_realisation(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_gather, Opcode::all_reduce, Opcode::reduce_scatter}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].realisation =
        i.realisation == Realisation::native ? Realisation::padded : Realisation::native;
    w.give(kind, w.name(i.result), plan, true);
  });
}

void redundant_broadcast(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction b;
    b.opcode = Opcode::broadcast;
    b.axis = i.axis;
    b.operands = {i.result};
    Workshop::insert(plan, at, b, plan.values[size_t(i.result)].placements);
    w.give(kind, w.name(i.result), plan, true);
  });
}

void mean_of_replicas(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    again.operands = {i.result};
    again.reduce = ReduceOp::average;
    Workshop::insert(plan, at, again, plan.values[size_t(i.result)].placements);
    w.give(kind, w.name(i.result), plan, true);
  });
}

void scattered_and_gathered(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    const Shape& shape = w.r_[w.p_.values[size_t(i.result)].node].type.shape;
    for (size_t t = 0; t < w.p_.tables.size(); ++t) {
      if (w.p_.tables[t].axis != i.axis) continue;
      for (size_t d = 0; d < shape.size(); ++d) {
        bool free = shape[d] > 1 && shape[d] % w.p_.tables[t].extent == 0;
        for (const Placement& p : w.p_.values[size_t(i.result)].placements)
          free = free && !(p.kind == Placement::Kind::sharded && p.dim == int(d));
        if (!free) continue;
        SpmdProgram plan = w.p_;
        Instruction& scatter = plan.instructions[at];
        scatter.opcode = Opcode::reduce_scatter;
        scatter.dim = int(d);
        scatter.table = int(t);
        Instruction gather;
        gather.opcode = Opcode::all_gather;
        gather.axis = i.axis;
        gather.dim = int(d);
        gather.table = int(t);
        gather.operands = {i.result};
        Workshop::insert(plan, at, gather, plan.values[size_t(i.result)].placements);
        return w.give(kind, w.name(i.result), plan, true);
      }
    }
  });
}

void sliced_and_gathered(Workshop& w, const std::string& kind) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    const Shape& shape = w.r_[w.p_.values[size_t(i.result)].node].type.shape;
    for (size_t t = 0; t < w.p_.tables.size(); ++t) {
      if (w.p_.tables[t].axis != i.axis || shape.empty() || shape[0] == 1 || shape[0] % w.p_.tables[t].extent) continue;
      bool free = true;
      for (const Placement& p : w.p_.values[size_t(i.result)].placements)
        free = free && !(p.kind == Placement::Kind::sharded && p.dim == 0);
      if (!free) continue;
      SpmdProgram plan = w.p_;
      Instruction slice;
      slice.opcode = Opcode::slice;
      slice.axis = i.axis;
      slice.dim = 0;
      slice.table = int(t);
      slice.operands = {i.result};
      Placements cut = plan.values[size_t(i.result)].placements, whole = cut;
      cut[size_t(i.axis)] = Placement::sharded(0, int(t));
      ValueId part = Workshop::insert(plan, at, slice, cut);
      Instruction gather = slice;
      gather.opcode = Opcode::all_gather;
      gather.operands = {part};
      Workshop::insert(plan, at + 1, gather, whole);
      return w.give(kind, w.name(i.result), plan, true);
    }
  });
}

void dead_code(Workshop& w, const std::string& kind) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    Value value = plan.values[size_t(i.result)];
    value.name += " again";
    again.result = ValueId(plan.values.size());
    plan.values.push_back(value);
    plan.instructions.insert(plan.instructions.begin() + long(at) + 1, again);
    w.give(kind, w.name(i.result), plan, true);
  });
}

const Entry entries[] = {
    {"all_reduce dropped", dropped<Opcode::all_reduce>},
    {"all_gather dropped", dropped<Opcode::all_gather>},
    {"reduce_scatter dropped", dropped<Opcode::reduce_scatter>},
    {"slice dropped", dropped<Opcode::slice>},
    {"all_to_all dropped", dropped<Opcode::all_to_all>},
    {"reduced twice", reduced_twice},
    {"mean for sum", reduced_by<ReduceOp::average>},
    {"maximum for sum", reduced_by<ReduceOp::max>},
    {"minimum for sum", reduced_by<ReduceOp::min>},
    {"product for sum", reduced_by<ReduceOp::product>},
    {"sum for maximum", reduced_by<ReduceOp::sum>},
    {"broadcast for all_reduce", replaced<Opcode::all_reduce, Opcode::broadcast>},
    {"slice for reduce_scatter", replaced<Opcode::reduce_scatter, Opcode::slice>},
    {"broadcast for all_gather", replaced<Opcode::all_gather, Opcode::broadcast>},
    {"all_reduce for all_gather", replaced<Opcode::all_gather, Opcode::all_reduce>},
    {"wrong axis", wrong_axis},
    {"wrong table in a movement", wrong_table},
    {"wrong dimension in a movement", wrong_dim},
    {"split by another table", split_by_another_table},
    {"split forgotten", split_forgotten},
    {"another factor split", another_factor_split},
    {"gap in a table", gap},
    {"overlap in a table", overlap},
    {"operands swapped", operands_swapped},
    {"another operand", another_operand},
    {"read before a collective", read_before_collective},
    {"updated too early", updated_too_early},
    {"used before defined", used_before_defined},
    {"wrong node claimed", wrong_node},
    {"update forgotten", update_forgotten},
    {"updates exchanged", updates_exchanged},
    {"update is the old value", update_is_old},
    {"update not gathered", update_not_gathered},
    {"local loss", local_loss},
    {"wrong word on a value", wrong_word},
    {"defined twice", defined_twice},
    {"ranks permuted", ranks_permuted},
    {"= another realisation", another_realisation},
    {"= redundant broadcast", redundant_broadcast},
    {"= mean of replicas", mean_of_replicas},
    {"= scattered and gathered", scattered_and_gathered},
    {"= sliced and gathered", sliced_and_gathered},
    {"= dead code", dead_code},
};

}  // namespace

void each_mutant(const Program& reference, const SpmdProgram& plan, const std::function<bool(Mutant)>& take) {
  Workshop workshop(reference, plan, take);
  for (const Entry& entry : entries)
    if (!workshop.stopped()) entry.apply(workshop, entry.name);
}

std::vector<std::string> kinds() {
  std::vector<std::string> out;
  for (const Entry& entry : entries) out.emplace_back(entry.name);
  return out;
}

}  // namespace hetsynth::mutation
