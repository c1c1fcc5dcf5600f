// What a run's work should be divided like, now that its devices' speeds are measured.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/transform/turns.h"
#include "pipeline/pipeline.h"

namespace hetsynth::cli {

/// What may be changed while training.
enum class BalanceMode {
  off,
  shares,  ///< what each device takes of the plan's program
  plan,    ///< the program and the devices, too
  lossy    ///< besides, what slow devices compute: they leave columns out of their products
};

/// Whether another program may be taken.
inline bool plans_anew(BalanceMode mode) { return mode == BalanceMode::plan || mode == BalanceMode::lossy; }

/// A division of the work that is proved to compute the same, and what it is worth.
struct NextDivision {
  std::optional<Plan> plan;  ///< none: there is nothing to gain
  double now_seconds = 0;    ///< predicted of a step under the plan that runs, at the measured speeds
  double next_seconds = 0;   ///< and under the best other one; 0: there is none
  std::string why_not;       ///< if there is no plan: the reason, as a part of a sentence
};

/// A run as it is, for those who plan beside it: copies, because the run goes on meanwhile.
struct RunningPlan {
  std::shared_ptr<const Program> reference;
  std::shared_ptr<const Program> whole_step;  ///< of which the reference is the step in turns; null: of none
  TurnCount turns = {};
  Plan plan;
  bool proved = true;
  Cluster cluster;  ///< all devices that may be used, at the speeds of the cluster file
  SynthesisOptions planning;
  bool keeps_devices = false;  ///< the next plan has the same devices in the same order
  double verify_seconds = 60;
};

/// The cluster's devices at measured speeds. `slowness`: by name, how many times as long as planned a device takes;
/// those that are not named take as long as the one in the middle.
Cluster at_measured_speeds(const Cluster& cluster, const std::map<std::string, double>& slowness);

/// Looks for a division that is faster at the measured speeds by more than `least_gain` of a step. One of another
/// program is proved and its source is checked; for other boundaries of the same program its proof holds, and their
/// source is still to be checked. Never throws: what went wrong is the reason why there is no plan.
NextDivision next_division(const RunningPlan& running, const std::map<std::string, double>& slowness, BalanceMode mode,
                           double least_gain);

}  // namespace hetsynth::cli
