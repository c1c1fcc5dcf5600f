#include "dsl/spmd/recomputation.h"

#include <algorithm>
#include <map>

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

}  // namespace hetsynth
