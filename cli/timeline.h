// A page to look at: what every device does during a step as it unfolds.
#pragma once
#include <string>
#include <vector>

#include "cli/trace_events.h"

namespace hetsynth::cli {

/// What the page shows of a device.
struct TimelineRow {
  std::string device;
  int stage = -1;      ///< of a pipeline; -1: there are none
  double waiting = 0;  ///< seconds of the step
  std::vector<TraceSlice> slices;
};

/// One self-contained HTML page that fits its window, in width and, as far as rows stay readable, in height: a row per
/// device, in it a bar per instruction, computing above and communication below, coloured by phase, with the tensor,
/// the model's line and the seconds of the bar under the pointer; above both, where a step has turns, which turn it is.
/// The name of a row says its stage and its bubble in per cent. Buttons, the wheel with Ctrl, and the keys + and -
/// zoom. `title`: of the page; `seconds`: of the step.
std::string timeline_page(const std::string& title, double seconds, const std::vector<TimelineRow>& rows);

}  // namespace hetsynth::cli
