#include "dsl/spmd/told_last.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace hetsynth {
namespace {

/// By value: something that the step needs, or that a loop makes, is made of it.
std::vector<bool> needed_values(const Program& reference, const SpmdProgram& program) {
  std::vector<bool> out(program.values.size(), false);
  for (const auto& [target, value] : program.finals) out[size_t(value)] = true;
  for (const auto& [carry, value] : program.carried) out[size_t(value)] = true;
  for (auto i = program.instructions.rbegin(); i != program.instructions.rend(); ++i)
    if (out[size_t(i->result)] || loop_of(reference, program, *i) >= 0)
      for (const ValueId operand : i->operands) out[size_t(operand)] = true;
  return out;
}

}  // namespace

SpmdProgram told_last(const Program& reference, SpmdProgram program) {
  const std::vector<bool> needed = needed_values(reference, program);
  std::vector<bool> late(program.values.size(), false);   // what stands at the end
  std::vector<bool> moved(program.values.size(), false);  // collectives' results
  const auto waits = [&](const Instruction& i) {
    if (needed[size_t(i.result)] || loop_of(reference, program, i) >= 0) return false;
    return std::ranges::any_of(i.operands, [&](ValueId operand) {
      return late[size_t(operand)] || (moved[size_t(operand)] && !communicates(i.opcode));
    });
  };
  std::vector<Instruction> told;
  std::vector<Instruction> others;
  for (Instruction& instruction : program.instructions) {
    const ValueId result = instruction.result;
    late[size_t(result)] = waits(instruction);
    moved[size_t(result)] = communicates(instruction.opcode);
    (late[size_t(result)] ? told : others).push_back(std::move(instruction));
  }
  std::ranges::move(told, std::back_inserter(others));
  program.instructions = std::move(others);
  return program;
}

}  // namespace hetsynth
