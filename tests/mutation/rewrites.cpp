// Changes that leave a plan right.
#include <algorithm>

#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

void another_realisation(Workshop& w) {
  w.each({Opcode::all_gather, Opcode::all_reduce, Opcode::reduce_scatter}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].realisation =
        i.realisation == Realisation::native ? Realisation::padded : Realisation::native;
    w.give_equal(w.name(i.result), plan);
  });
}

void redundant_broadcast(Workshop& w) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction b;
    b.opcode = Opcode::broadcast;
    b.axis = i.axis;
    b.operands = {i.result};
    Workshop::insert(plan, at, b, plan.values[size_t(i.result)].placements);
    w.give_equal(w.name(i.result), plan);
  });
}

void mean_of_replicas(Workshop& w) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    again.operands = {i.result};
    again.reduce = ReduceOp::average;
    Workshop::insert(plan, at, again, plan.values[size_t(i.result)].placements);
    w.give_equal(w.name(i.result), plan);
  });
}

void scattered_and_gathered(Workshop& w) {
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
        return w.give_equal(w.name(i.result), plan);
      }
    }
  });
}

void sliced_and_gathered(Workshop& w) {
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
      return w.give_equal(w.name(i.result), plan);
    }
  });
}

void dead_code(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    Value value = plan.values[size_t(i.result)];
    value.name += " again";
    again.result = ValueId(plan.values.size());
    plan.values.push_back(value);
    plan.instructions.insert(plan.instructions.begin() + long(at) + 1, again);
    w.give_equal(w.name(i.result), plan);
  });
}

/// The same boundaries under another name.
void equal_table(Workshop& w) {
  w.each({Opcode::compute, Opcode::slice, Opcode::all_gather}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    auto copied = [&](int& table) {
      if (table < 0) return;
      plan.tables.push_back(plan.tables[size_t(table)]);
      plan.tables.back().name += " again";
      table = int(plan.tables.size()) - 1;
    };
    copied(plan.instructions[at].table);
    for (Split& split : plan.instructions[at].splits) copied(split.table);
    if (plan.tables.size() > w.p_.tables.size()) w.give_equal(w.name(i.result), plan);
  });
}

/// Two instructions that do not need each other, in the other order.
void reordered(Workshop& w) {
  for (size_t at : w.order(w.p_.instructions.size() - 1)) {
    if (w.done()) return;
    const Instruction& next = w.p_.instructions[at + 1];
    ValueId made = w.p_.instructions[at].result;
    if (std::count(next.operands.begin(), next.operands.end(), made)) continue;
    SpmdProgram plan = w.p_;
    std::swap(plan.instructions[at], plan.instructions[at + 1]);
    w.give_equal(w.name(made), plan);
  }
}

}  // namespace

const std::vector<Kind>& rewrites() {
  static const std::vector<Kind> kinds = {
      {"= another realisation", another_realisation},
      {"= redundant broadcast", redundant_broadcast},
      {"= mean of replicas", mean_of_replicas},
      {"= scattered and gathered", scattered_and_gathered},
      {"= sliced and gathered", sliced_and_gathered},
      {"= dead code", dead_code},
      {"= equal table", equal_table},
      {"= reordered", reordered},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
