// The timeline of a step as it was measured, beside the one that was planned.
#pragma once
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "runtime/executor.h"

namespace hetsynth::cli {

/// What a device did in a step of `seconds`; these add up to it.
struct DeviceSeconds {
  double computing = 0;
  double slept = 0;  ///< to act as a slower device
  double communicating = 0;
  double data = 0;
  double waiting = 0;  ///< none of these
};

/// Sums of a rank's trace. `marks`: of its program; `seconds`: of the step.
DeviceSeconds device_seconds(const RankTrace& trace, const std::vector<MarkedWork>& marks, double seconds);

/// Until the last rank is done.
double length_of(const MeasuredStep& step);

/// Both as trace events: of each rank a process "rank 0 measured" and one "rank 0 planned". Expects the programs of all
/// ranks, with marks.
std::string measured_trace(const Compilation& compilation, const MeasuredStep& step);

/// A line per device: its seconds, and what it waits for in per cent of the step, measured and planned.
std::string measured_text(const Compilation& compilation, const MeasuredStep& step);

/// Throws UserError if steps on the cluster cannot be traced: its devices are no cores.
void check_traceable(const Cluster& cluster);

}  // namespace hetsynth::cli
