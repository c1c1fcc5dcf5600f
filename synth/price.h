// What every instruction of an SPMD program costs, read off the program itself: by its boundary tables and placements,
// on meshes of any number of axes. Shares the cost model's formulas (synth/cost.h) and none of the search's data, so it
// prices plans from anywhere, edited ones included, and checks the sums the search arrived at.
#pragma once
#include <vector>

#include "dsl/spmd/cluster.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth {

struct InstructionPrice {
  double seconds = 0;                  ///< the slowest device's: the others wait for it
  std::vector<double> device_seconds;  ///< by rank
  double flops = 0;                    ///< of all devices
  double bytes = 0;                    ///< communication: of the whole tensor that a group moves; 0 for computation
  bool communicates() const { return bytes > 0; }
};

/// One price per instruction. `cluster` holds the devices of the program's mesh in rank order.
std::vector<InstructionPrice> price_instructions(const Program& reference, const SpmdProgram& program,
                                                 const Cluster& cluster);

/// Sum of the instructions' seconds.
double step_seconds(const std::vector<InstructionPrice>& prices);

}  // namespace hetsynth
