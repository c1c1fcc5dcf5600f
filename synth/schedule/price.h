// What every instruction of an SPMD program costs, read off the program itself: by its boundary tables and placements.
// The formulas are the cost model's (synth/model/cost.h), so plans from anywhere, edited ones included, are priced as
// the search prices them.
#pragma once
#include <unordered_map>
#include <vector>

#include "dsl/cluster/cluster.h"
#include "dsl/spmd/spmd.h"
#include "synth/support/interner.h"

namespace hetsynth {

/// Of all turns, if the instruction runs in those of a loop.
struct InstructionPrice {
  double seconds = 0;                  ///< the slowest device's, in whole picoseconds: the others wait for it
  std::vector<double> device_seconds;  ///< by rank
  std::vector<double> device_flops;    ///< by rank; 0 for all but computation
  double bytes = 0;                    ///< communication: of the whole tensor that a group moves; 0 for computation
  bool communicates() const { return bytes > 0; }
};

/// One price per instruction. `cluster` holds the devices of the program's mesh in rank order. Throws UserError for a
/// mesh of more axes than are priced.
std::vector<InstructionPrice> price_instructions(const Program& reference, const SpmdProgram& program,
                                                 const Cluster& cluster);

/// Whether some devices hold nothing of some value: else all take part in every instruction.
bool has_stages(const SpmdProgram& program);
/// Stages of a pipeline, whose first axis they are; 1 of other programs.
int stage_count(const SpmdProgram& program);

/// Sum of the instructions' seconds.
double step_seconds(const std::vector<InstructionPrice>& prices);

namespace synth {

struct Problem;
class CommunicationCost;

/// For a problem at hand, on the program's mesh.
class Pricer {
 public:
  /// `communication`: over other links than the problem's; must outlive this.
  Pricer(const Problem& problem, const SpmdProgram& program, const CommunicationCost* communication = nullptr);
  /// Instructions that do the same with parts of the same size are priced once.
  const InstructionPrice& price(const Instruction& instruction) const;
  /// Of a value, by device.
  std::vector<double> held_bytes(ValueId value) const;
  double held_bytes(ValueId value, int device) const;

 private:
  /// Part of what the table cuts that each device holds.
  const std::vector<double>& parts(int table) const { return parts_[size_t(table)]; }
  const std::vector<int64_t>& content(const Instruction& instruction) const;
  InstructionPrice worked_out(const Instruction& instruction) const;
  InstructionPrice computation(const Instruction& instruction) const;

  const Problem& problem_;
  const SpmdProgram& program_;
  const CommunicationCost& communication_;
  const bool staged_;                                                                       ///< has_stages
  std::vector<std::vector<double>> parts_;                                                  ///< [table][device]
  mutable std::unordered_map<std::vector<int64_t>, InstructionPrice, SequenceHash> known_;  ///< by content
  mutable std::vector<int64_t> content_;                                                    ///< of the last
};

std::vector<InstructionPrice> price_instructions(const Problem& problem, const SpmdProgram& program);

/// The problem that a program at hand is a solution of. Throws UserError for a mesh of more axes than are priced.
Problem problem_of(const Program& reference, const SpmdProgram& program, const Cluster& cluster);

}  // namespace synth
}  // namespace hetsynth
