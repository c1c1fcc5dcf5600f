#include "verify/source/meaning/same_values.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hetsynth::source {

std::vector<ValueId> first_same_values(const SpmdProgram& program) {
  std::vector<ValueId> first(program.values.size());
  std::iota(first.begin(), first.end(), 0);
  std::map<std::vector<ValueId>, std::vector<Instruction>> met;  // by the first of their operands
  for (const Instruction& instruction : program.instructions) {
    Instruction plain = instruction;  // without what does not tell values apart
    for (ValueId& operand : plain.operands) operand = first[size_t(operand)];
    plain.realisation = Realisation::native;
    plain.cause.clear();
    std::vector<Instruction>& alike = met[plain.operands];
    const Value& value = program.values[size_t(instruction.result)];
    const auto same = std::ranges::find_if(alike, [&](const Instruction& other) {
      const Value& its = program.values[size_t(other.result)];
      plain.result = other.result;
      return plain == other && its.node == value.node && its.placements == value.placements;
    });
    if (same != alike.end()) {
      first[size_t(instruction.result)] = same->result;
    } else {
      plain.result = instruction.result;
      alike.push_back(plain);
    }
  }
  return first;
}

}  // namespace hetsynth::source
