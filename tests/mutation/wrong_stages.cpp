// Pipeline stages: values that are not sent, sent from or to the wrong place, or read where they do not lie; and tables
// that differ between the groups of another axis.
#include <algorithm>

#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

/// Calls change(instruction, stage) with every other stage of the axis.
template <class Change>
void each_other_stage(Workshop& w, const std::set<Opcode>& opcodes, Change change) {
  w.each(opcodes, [&](size_t at, const Instruction& i) {
    for (int stage = 0; stage < w.p_.mesh.axes[size_t(i.axis)].size && !w.done(); ++stage) {
      SpmdProgram plan = w.p_;
      if (change(plan.instructions[at], stage)) w.give(w.name(i.result), plan);
    }
  });
}

void sent_to_wrong_stage(Workshop& w) {
  each_other_stage(w, {Opcode::send}, [](Instruction& i, int stage) {
    const bool other = stage != i.to && stage != i.root;
    i.to = stage;
    return other;
  });
}

void sent_from_wrong_stage(Workshop& w) {
  each_other_stage(w, {Opcode::send, Opcode::broadcast}, [&w](Instruction& i, int stage) {
    const Placement& from = w.p_.values[size_t(i.operands[0])].placements[size_t(i.axis)];
    const bool other =
        from.kind == Placement::Kind::stage && stage != i.root && (i.opcode != Opcode::send || stage != i.to);
    i.root = stage;
    return other;
  });
}

void sent_backwards(Workshop& w) {
  w.each({Opcode::send}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    std::swap(plan.instructions[at].root, plan.instructions[at].to);
    w.give(w.name(i.result), plan);
  });
}

/// Two values of one type on one way, as the activations of two micro-batches are, arrive in each other's place.
void sends_exchanged(Workshop& w) {
  w.each({Opcode::send}, [&](size_t at, const Instruction& i) {
    auto type = [&](const Instruction& s) { return w.r_[w.p_.values[size_t(s.operands[0])].node].type; };
    for (size_t other = at + 1; other < w.p_.instructions.size(); ++other) {
      const Instruction& j = w.p_.instructions[other];
      const bool alike = j.opcode == Opcode::send && j.axis == i.axis && j.root == i.root && j.to == i.to &&
                         type(j) == type(i) && j.operands != i.operands;
      if (!alike) continue;
      SpmdProgram plan = w.p_;
      std::swap(plan.instructions[at].operands, plan.instructions[other].operands);
      for (size_t send : {at, other})
        plan.values[size_t(plan.instructions[send].result)].node =
            plan.values[size_t(plan.instructions[send].operands[0])].node;
      return w.give(w.name(i.result), plan);
    }
  });
}

void computed_on_wrong_stage(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a)
      for (int stage = 0; i.splits[a].stage >= 0 && stage < w.p_.mesh.axes[a].size && !w.done(); ++stage) {
        if (stage == i.splits[a].stage) continue;
        SpmdProgram plan = w.p_;
        plan.instructions[at].splits[a].stage = stage;
        w.give(w.name(i.result), plan);
      }
  });
}

void computed_on_every_stage(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].stage < 0) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].splits[a] = {};
      w.give(w.name(i.result), plan);
    }
  });
}

/// The read goes to the value before it was sent.
void read_before_sent(Workshop& w) {
  w.each({Opcode::send}, [&](size_t, const Instruction& i) {
    for (size_t at = 0; at < w.p_.instructions.size(); ++at) {
      const Instruction& reader = w.p_.instructions[at];
      const auto reads = std::find(reader.operands.begin(), reader.operands.end(), i.result);
      if (reads == reader.operands.end()) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[size_t(reads - reader.operands.begin())] = i.operands[0];
      return w.give(w.name(reader.result), plan);
    }
  });
}

/// One group of another axis cuts elsewhere than the others.
void table_differs_between_groups(Workshop& w) {
  for (size_t t : w.order(w.p_.tables.size()))
    for (int by = 0; by < int(w.p_.mesh.axes.size()) && !w.done(); ++by) {
      SpmdProgram plan = w.p_;
      const int other = Workshop::other_table(plan, int(t));
      if (other < 0 || by == plan.tables[t].axis || plan.mesh.axes[size_t(by)].size == 1) continue;
      BoundaryTable& table = plan.tables[t];
      table.rows.assign(size_t(plan.mesh.axes[size_t(by)].size), table.bounds);
      table.rows.back() = plan.tables[size_t(other)].bounds;
      table.by = by;
      table.bounds.clear();
      plan.tables.pop_back();
      w.give_as_it_is(table.name, plan);
    }
}

}  // namespace

const std::vector<Kind>& wrong_stages() {
  static const std::vector<Kind> kinds = {
      {"send dropped", dropped<Opcode::send>},
      {"sent to another stage", sent_to_wrong_stage},
      {"sent from another stage", sent_from_wrong_stage},
      {"sent backwards", sent_backwards},
      {"sends exchanged", sends_exchanged},
      {"computed on another stage", computed_on_wrong_stage},
      {"computed on every stage", computed_on_every_stage},
      {"read before it is sent", read_before_sent},
      {"table differs between groups", table_differs_between_groups},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
