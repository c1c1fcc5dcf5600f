// One step of a generated program on doubles, beside the interpreter's.
#pragma once
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/cuda/cuda_cluster.h"

namespace hetsynth::testing_support {

/// What is updated after a step, update by update, or what the doubles say is wrong with it.
struct After {
  std::vector<double> values;
  std::string problem;
};

/// `devices`: what was generated, perhaps changed by a test; empty: generate now.
After after_a_step(const Program& reference, const SpmdProgram& plan, const Cluster& cluster,
                   std::vector<DeviceProgram> devices = {}, MachineOptions options = {});
/// The same from the interpreter, from equal values.
std::vector<double> expected_after_a_step(const Program& reference);

/// What is damaged in the text of a generated program.
struct Fault {
  std::string name;
  std::string from;  ///< a regular expression; its first match is replaced
  std::string to;
};
inline std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }
/// Throws std::invalid_argument where there is nothing to damage.
DeviceProgram damaged(DeviceProgram device, const Fault& fault);

}  // namespace hetsynth::testing_support
