// Which devices carry an instruction out, and in which groups they meet.
#pragma once
#include <map>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Some devices of a mesh.
struct Participants {
  std::vector<int> devices;                           ///< ascending
  std::vector<int> place;                             ///< by device: which of these it is; -1: none
  std::vector<std::vector<std::vector<int>>> groups;  ///< [axis][group]: those that differ along the axis alone
};

/// Told once for all instructions of the same devices.
class ParticipantsOf {
 public:
  explicit ParticipantsOf(const SpmdProgram& program);
  const Participants& operator[](size_t instruction) const { return *by_instruction_[instruction]; }

 private:
  std::map<std::vector<char>, Participants> known_;  ///< by whether each device takes part
  std::vector<const Participants*> by_instruction_;
};

}  // namespace hetsynth
