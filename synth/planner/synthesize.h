// The stage `synthesize`: reference program x cluster -> the best SPMD program under the cost model, with its
// prediction.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dsl/spmd/plan.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/model/pins.h"
#include "synth/support/budget.h"

namespace hetsynth {

struct SynthesisOptions {
  /// How much work the search may do.
  Effort effort = Effort::normal;
  /// The search ends with its work even if no plan was found by then; else it goes on until there is one, or it is
  /// shown that there is none.
  bool gives_up = false;
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
  /// The plan is a pipeline (synth/planner/pipelines.h) of so many stages, and none if this is 1. If it is not given,
  /// the planner takes as many as are fastest.
  std::optional<int> stages = {};
  /// So many more plans of every mesh are told of and simulated.
  size_t runners_up = 0;
  /// If given: what every strategy took and gained is put there.
  std::vector<StrategyRecord>* strategies = nullptr;
  /// What is fixed: the best plan that keeps to it. Pins but forbidden instructions need all devices.
  PlanPins pins = {};
};

/// Searches over meshes of all devices, or of the devices that pay; the plan's prediction says what was considered
/// (Trial). Throws UserError with ExitCode::infeasible,
/// naming what does not fit, if no plan exists.
Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options = {});

}  // namespace hetsynth
