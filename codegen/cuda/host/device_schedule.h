// Everything a cuda rank does, before any text of the host side is written: launches, products and transfers in order,
// the events between streams, and where every tensor lies.
#pragma once
#include <string>
#include <vector>

#include "codegen/cuda/kernels/kernel.h"
#include "codegen/cuda/plan/fusion.h"
#include "codegen/cuda/transfers/transfers.h"
#include "codegen/passes/lower.h"
#include "dsl/spmd/buckets.h"

namespace hetsynth::codegen::cuda {

struct ScheduledStep {
  LaunchStep step;
  StepKernels kernels = {};                  ///< kernel, scatter; collective: packing kernels, then unpacking ones
  Transfer transfer = {};                    ///< collective: of all in it
  std::vector<int64_t> scratch_offset = {};  ///< bytes in the arena, per scratch of the step
  std::vector<int> scratch_until = {};       ///< per scratch: the step that reads it last; empty: the step itself
  int forward = -1;                          ///< gradient of attention by cuDNN: the step of the forward call
  int event = -1;                  ///< collective: two events, this one for its start and the next for its end
  std::vector<int> wait_for = {};  ///< ends of collectives that compute waits for before this step
  /// Collective: it may begin before this step, when all that it reads and overwrites is done; at most itself.
  int begins = -1;
  std::vector<int> let_begin = {};  ///< later collectives that may begin before this step
};

struct DeviceSchedule {
  Lowered lowered;  ///< without groups
  std::vector<ScheduledStep> steps;
  std::vector<int> wait_at_end;  ///< steps
  int events = 0;
};

/// Memory: a buffer is free for others when the last reader is done, and compute has waited for the reader if it is a
/// transfer. A transfer begins as soon as what it reads is made, whatever stands before it, so that parameters are
/// gathered ahead of their reader; its result has its place from then on. What transfers under way read is a 64th of
/// the device's memory at most, and what they write ahead of their place in the program another, or less where it does
/// not fit.
/// Parameters and states are updated in place where every reader of the old contents comes first. `cluster`: groups
/// that hold cpu devices exchange data through the host. `program` must outlive the result.
DeviceSchedule schedule(const Program& reference, const BucketedProgram& program, const Cluster& cluster, int rank,
                        const ElementTypes& types);

}  // namespace hetsynth::codegen::cuda
