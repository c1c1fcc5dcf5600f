#include "dsl/spmd/recomputation.h"

#include <algorithm>
#include <map>
#include <set>

namespace hetsynth {

std::vector<char> made_again(const SpmdProgram& program) {
  std::vector<char> again(program.values.size(), 0);
  std::multimap<NodeId, ValueId> made;
  for (const Instruction& instruction : program.instructions) {
    const Value& value = program.values[instruction.result];
    auto [first, last] = made.equal_range(value.node);
    again[instruction.result] = std::any_of(
        first, last, [&](auto& other) { return program.values[other.second].placements == value.placements; });
    made.emplace(value.node, instruction.result);
  }
  return again;
}

int computed_in_two_ways(const SpmdProgram& program) {
  std::map<NodeId, const Placements*> first;
  std::set<NodeId> others;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::compute) continue;
    const Placements& placements = program.values[size_t(instruction.result)].placements;
    const auto [it, fresh] = first.try_emplace(instruction.node, &placements);
    if (*it->second != placements) others.insert(instruction.node);
  }
  return int(others.size());
}

}  // namespace hetsynth
