// Compute instructions with other operands, splits or nodes.
#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

void split_by_another_table(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      SpmdProgram plan = w.p_;
      int other = Workshop::other_table(plan, i.splits[a].table);
      if (other < 0) continue;
      plan.instructions[at].splits[a].table = other;
      w.give(w.name(i.result), plan);
    }
  });
}

void split_forgotten(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].splits[a] = {};
      w.give(w.name(i.result), plan);
    }
  });
}

void another_factor_split(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    const std::vector<Factor>& factors = w.r_[i.node].space.factors;
    for (size_t a = 0; a < i.splits.size(); ++a) {
      if (i.splits[a].factor < 0) continue;
      for (int f = 0; f < int(factors.size()); ++f) {
        if (f == i.splits[a].factor || factors[size_t(f)].size % w.p_.tables[size_t(i.splits[a].table)].extent)
          continue;
        SpmdProgram plan = w.p_;
        plan.instructions[at].splits[a].factor = f;
        w.give(w.name(i.result), plan);
      }
    }
  });
}

void operands_swapped(Workshop& w) {
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t j = 0; j + 1 < i.operands.size(); ++j) {
      SpmdProgram plan = w.p_;
      std::swap(plan.instructions[at].operands[j], plan.instructions[at].operands[j + 1]);
      w.give(w.name(i.result), plan);
    }
  });
}

/// The last value of the same type, held alike, that was made before.
ValueId look_alike(const Workshop& w, size_t before, ValueId right_one) {
  const Value& right = w.p_.values[size_t(right_one)];
  auto alike = [&](ValueId v) {
    const Value& wrong = w.p_.values[size_t(v)];
    return wrong.node != right.node && w.r_[wrong.node].type == w.r_[right.node].type &&
           wrong.placements == right.placements;
  };
  for (size_t k = before; k-- > 0;)
    if (alike(w.p_.instructions[k].result)) return w.p_.instructions[k].result;
  for (size_t k = w.p_.leaves.size(); k-- > 0;)
    if (alike(w.p_.leaves[k])) return w.p_.leaves[k];
  return -1;
}

void another_operand(Workshop& w) {
  w.each({Opcode::compute, Opcode::all_reduce, Opcode::all_gather}, [&](size_t at, const Instruction& i) {
    for (size_t j = 0; j < i.operands.size(); ++j) {
      ValueId wrong = look_alike(w, at, i.operands[j]);
      if (wrong < 0) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[j] = wrong;
      w.give(w.name(i.result), plan);
    }
  });
}

/// A compute instruction reads what a collective was given instead of what it made.
void read_before_collective(Workshop& w) {
  std::vector<int> maker(w.p_.values.size(), -1);
  for (size_t i = 0; i < w.p_.instructions.size(); ++i) maker[size_t(w.p_.instructions[i].result)] = int(i);
  w.each({Opcode::compute}, [&](size_t at, const Instruction& i) {
    for (size_t j = 0; j < i.operands.size(); ++j) {
      int made = maker[size_t(i.operands[j])];
      if (made < 0 || !moves(w.p_.instructions[size_t(made)])) continue;
      SpmdProgram plan = w.p_;
      plan.instructions[at].operands[j] = w.p_.instructions[size_t(made)].operands[0];
      w.give(w.name(i.result), plan);
    }
  });
}

void wrong_node(Workshop& w) {
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
      w.give(w.name(i.result), plan);
      break;
    }
  });
}

}  // namespace

const std::vector<Kind>& wrong_computations() {
  static const std::vector<Kind> kinds = {
      {"split by another table", split_by_another_table},
      {"split forgotten", split_forgotten},
      {"another factor split", another_factor_split},
      {"operands swapped", operands_swapped},
      {"another operand", another_operand},
      {"read before a collective", read_before_collective},
      {"wrong node claimed", wrong_node},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
