// Halos that are missing or too short, and those that are wider than anything reads.
#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

template <int64_t Instruction::*side>
void too_short(Workshop& w) {
  w.each({Opcode::halo_exchange}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction& shorter = plan.instructions[at];
    if (--(shorter.*side) >= 0 && shorter.before + shorter.after > 0) w.give(w.name(i.result), plan);
  });
}

void sides_exchanged(Workshop& w) {
  w.each({Opcode::halo_exchange}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    std::swap(plan.instructions[at].before, plan.instructions[at].after);
    if (i.before != i.after) w.give(w.name(i.result), plan);
  });
}

void wider(Workshop& w) {
  w.each({Opcode::halo_exchange}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].before += 2;
    plan.instructions[at].after += 1;
    w.give_equal(w.name(i.result), plan);
  });
}

}  // namespace

const std::vector<Kind>& wrong_halos() {
  static const std::vector<Kind> kinds{
      {"halo_exchange dropped", dropped<Opcode::halo_exchange>},
      {"halo too short before", too_short<&Instruction::before>},
      {"halo too short after", too_short<&Instruction::after>},
      {"sides of a halo exchanged", sides_exchanged},
      {"halo wider than is read", wider},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
