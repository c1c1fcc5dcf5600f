// A step as it unfolds on every device: instructions in order on a device's streams, each as soon as its operands are
// there; a collective begins when the last device of its group is ready. Unlike the sum that the search minimises,
// devices wait for one another at collectives only, and on devices with a stream for communication (cuda) that overlaps
// with computing.
#pragma once
#include <vector>

#include "dsl/cluster/cluster.h"
#include "synth/schedule/price.h"

namespace hetsynth {

struct TimelineSpan {
  double start = 0, end = 0;
};

/// Of a device. Hidden: communication during which the device computes.
struct DeviceTimeline {
  double compute_seconds = 0, communication_seconds = 0, hidden_seconds = 0;
  double idle_seconds = 0;  ///< neither
};

struct Timeline {
  double seconds = 0;                            ///< until the last device is done
  std::vector<std::vector<TimelineSpan>> spans;  ///< [instruction][rank]
  std::vector<DeviceTimeline> devices;
};

/// `prices`: of the program's instructions. `devices`: in rank order; their kinds tell how many streams they have.
Timeline simulate(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                  const std::vector<Device>& devices);
/// When its last device is done.
double simulated_seconds(const SpmdProgram& program, const std::vector<InstructionPrice>& prices,
                         const std::vector<Device>& devices);

}  // namespace hetsynth
