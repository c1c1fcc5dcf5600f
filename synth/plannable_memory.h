// What of a device's memory a plan may fill.
#pragma once
#include <cstdint>

#include "synth/problem.h"

namespace hetsynth::synth {

/// Tensors leave gaps between them, and transfers under way keep what they read (codegen/cuda/device_schedule.h): a
/// 32nd is left for that, unless no plan on any mesh gets by with the rest. 0: nobody knows.
inline int64_t plannable_memory(const Problem& problem, size_t device) {
  const int64_t memory = problem.cluster.devices[device].memory_bytes;
  return problem.fills_memory ? memory : memory - memory / 32;
}

}  // namespace hetsynth::synth
