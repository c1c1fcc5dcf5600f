// The stage `synthesize`: reference program x cluster -> the best SPMD program under the cost model, with its
// prediction.
#pragma once
#include <functional>
#include <string>

#include "dsl/spmd/plan.h"

namespace hetsynth {

struct SynthesisOptions {
  double time_limit_seconds = 0;  ///< 0: none
  /// Called now and then; return false to stop with the best plan so far.
  std::function<bool(const std::string& progress)> progress;
};

/// Searches over one mesh axis of all devices. Throws UserError with ExitCode::infeasible, naming what does not fit, if
/// no plan exists.
Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options = {});

/// The plan of one device: every tensor whole.
Plan single_device_plan(const Program& reference, const Cluster& cluster);

}  // namespace hetsynth
