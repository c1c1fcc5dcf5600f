// The stage `synthesize`: reference program x cluster -> the best SPMD program under the cost model, with its
// prediction.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/pins.h"

namespace hetsynth {

/// How a synthesis is going. Steps' seconds are those of the cost model.
struct SynthesisProgress {
  double elapsed_seconds = 0;
  std::optional<double> best_seconds;  ///< a step of the fastest plan so far
  double bound_seconds = 0;            ///< proven for that plan's devices and shares
  int64_t searches = 0;                ///< at fixed shares, finished
  int64_t expansions = 0;              ///< of states, in these
};

/// By which measure one of the plans found is taken.
enum class Score {
  sum,       ///< the cost model's sum over instructions, which bounds are proven for
  timeline,  ///< when the step ends as it unfolds (synth/timeline.h): communication beside computing where devices can
};

struct SynthesisOptions {
  /// After this time the best plan so far is taken, or, before any was found, one that needs no search.
  std::optional<double> time_limit_seconds;
  /// Called every tenth of a second and for every better plan; return false to stop with the best plan so far.
  std::function<bool(const SynthesisProgress&)> progress;
  /// Also plan meshes over fewer devices (one host, the fastest kinds, the fastest device) and take the fastest plan of
  /// all; it names its devices.
  bool drop_devices = false;
  /// 2: also plan meshes of two axes over all devices (hosts x devices, and other factorisations). 3: also of three
  /// axes, which takes many times as long.
  int most_axes = 1;
  /// The timeline decides among plans that the search by the sum met on its way, the best of every mesh and its
  /// runners-up, as far as their sums are near the best one's. Bounds remain those of sums.
  Score score = Score::sum;
  /// So many more plans of every mesh are told of and scored.
  size_t runners_up = 0;
  /// What is fixed: the best plan that keeps to it. Pins but forbidden instructions need all devices.
  PlanPins pins = {};
};

/// Searches over meshes of all devices, or of the devices that pay; the plan's prediction says what was considered
/// (Trial). Throws UserError with ExitCode::infeasible,
/// naming what does not fit, if no plan exists.
Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options = {});

/// The plan of one device, the fastest of the cluster: every tensor whole, a mesh of one. The plan names that device
/// only.
Plan single_device_plan(const Program& reference, const Cluster& cluster);

/// How a plan that is not searched deals out the work.
enum class RatioRule {
  even,
  proportional,  ///< inverse to the time a device would need for the whole step alone
};

/// Data parallelism over all devices: the batch is cut, parameters and states are replicated, gradients are
/// all-reduced. Where the batch has no dimension to cut, everything is computed by every device. Throws UserError with
/// ExitCode::infeasible if it does not fit into memory.
Plan data_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule = RatioRule::even);

/// Tensor parallelism over all devices, in the manner of Megatron: matrix products with parameters are cut in another
/// dimension than the batch, nothing is cut along the batch, and the rest is the cheapest plan under that. Throws
/// UserError with ExitCode::infeasible if it does not fit into memory.
Plan tensor_parallel_plan(const Program& reference, const Cluster& cluster, RatioRule rule = RatioRule::even);

}  // namespace hetsynth
