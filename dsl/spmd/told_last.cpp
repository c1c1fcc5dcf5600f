#include "dsl/spmd/told_last.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace hetsynth {
namespace {

/// Returns, by value, whether something that the step needs, or that a loop makes, is made of it.
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
  std::vector<bool> late(program.values.size(), false);  // what stands at the end
  std::vector<bool> told(program.values.size(), false);  // collectives' results that the step does not wait for
  const auto waits = [&](const Instruction& i) {
    if (needed[size_t(i.result)] || loop_of(reference, program, i) >= 0) return false;
    return std::ranges::any_of(i.operands, [&](ValueId operand) {
      return late[size_t(operand)] || (told[size_t(operand)] && !communicates(i.opcode));
    });
  };
  std::vector<Instruction> last, others;
  for (Instruction& instruction : program.instructions) {
    const ValueId result = instruction.result;
    late[size_t(result)] = waits(instruction);
    told[size_t(result)] = communicates(instruction.opcode) && !needed[size_t(result)];
    (late[size_t(result)] ? last : others).push_back(std::move(instruction));
  }
  std::ranges::move(last, std::back_inserter(others));
  program.instructions = std::move(others);
  return program;
}

}  // namespace hetsynth
