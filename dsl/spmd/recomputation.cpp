#include "dsl/spmd/recomputation.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace hetsynth {

std::vector<ValueId> first_made(const SpmdProgram& program) {
  std::vector<ValueId> first(program.values.size());
  std::iota(first.begin(), first.end(), 0);
  std::multimap<NodeId, ValueId> made;  // the first of each
  for (const Instruction& instruction : program.instructions) {
    const Value& value = program.values[instruction.result];
    const auto [begin, end] = made.equal_range(value.node);
    const auto same = std::find_if(
        begin, end, [&](const auto& other) { return program.values[other.second].placements == value.placements; });
    if (same != end)
      first[instruction.result] = same->second;
    else
      made.emplace(value.node, instruction.result);
  }
  return first;
}

std::vector<char> made_again(const SpmdProgram& program) {
  std::vector<char> again;
  for (ValueId first : first_made(program)) again.push_back(first != ValueId(again.size()));
  return again;
}

}  // namespace hetsynth
