// The seam between the executor and what a rank runs on. The cpu is one implementation; a GPU copies where the cpu
// points.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codegen/interface/abi.h"
#include "codegen/interface/device_program.h"
#include "runtime/collectives/communicator.h"
#include "runtime/rank/run_state.h"
#include "runtime/rank/step_profile.h"

namespace hetsynth {

/// The compiled step of a rank; the closure keeps the code alive.
using StepFunction = std::function<int(HetsynthContext*)>;

/// Memory and code of one rank. All functions are called from the rank's thread, or while that thread rests.
class RankDevice {
 public:
  virtual ~RankDevice() = default;
  /// What the rank has to know of the run it is part of; both outlive the device's work. Once, before all others.
  virtual void join(RunState& /*run*/, Communicator& /*communicator*/) {}
  /// Makes the rank's arena, zeroed. Once, before anything else.
  virtual void allocate(int64_t bytes) = 0;
  /// The same within the memory of another device, which may grow for it: they run in turn. Only between cpu devices.
  virtual void allocate_in(RankDevice& other, int64_t bytes);
  /// Where this byte of the arena lies; null where the host cannot write it itself.
  virtual std::byte* host_memory(int64_t /*offset_bytes*/) { return nullptr; }
  virtual void write(int64_t offset_bytes, std::span<const std::byte> data) = 0;
  virtual void read(int64_t offset_bytes, std::span<std::byte> data) const = 0;
  /// Runs one step; the arena, streams and device of the context are filled in here. Returns what the generated step
  /// returns, after all of its work is done.
  virtual int step(HetsynthContext context) = 0;
  /// A step that is measured call by call; what it took is added to `work`. Devices that measure nothing just run it.
  virtual int profile(HetsynthContext context, std::vector<TimedWork>& /*work*/) { return step(context); }
};

/// A cpu device with a compiled step.
std::unique_ptr<RankDevice> cpu_device(StepFunction step);

}  // namespace hetsynth
