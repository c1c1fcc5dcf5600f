// What of a device's memory a plan may fill, and plans that need more.
#pragma once
#include <cstdint>
#include <string>

#include "dsl/base/error.h"
#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Tensors leave gaps between them, and transfers under way keep what they read (codegen/cuda/host/device_schedule.h):
/// a 32nd is left for that, unless no plan on any mesh gets by with the rest. 0: nobody knows.
inline int64_t memory_budget(const Problem& problem, size_t device) {
  const int64_t memory = problem.cluster.devices[device].memory_bytes;
  return problem.fills_memory ? memory : memory - memory / 32;
}

/// Throws UserError with ExitCode::infeasible naming the device that would need the largest multiple of its memory, if
/// any is over its limit. `mend_first`: what helps before anything else, if something does.
void check_memory(const Problem& problem, const Prediction& prediction, const std::string& plan_name,
                  const std::string& mend_first = "");

/// No device needs more than a tenth above its memory: with all of it there may be a plan.
class NearlyFits : public UserError {
  using UserError::UserError;
};

/// The same, of what a plan may fill of the memories. Throws NearlyFits where that is so.
void check_memory_budget(const Problem& problem, const Prediction& prediction, const std::string& plan_name);

}  // namespace hetsynth::synth
