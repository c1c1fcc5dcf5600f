#include "synth/plan_choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "synth/device_subsets.h"
#include "synth/step_figures.h"

namespace hetsynth::synth {
namespace {

/// Where the timeline decides, plans whose sum is so many times the best one's are still worth simulating: what
/// overlaps hides at most the shorter of computing and communicating.
constexpr double worth_simulating = 1.25;

Trial trial_of(const Problem& problem, Picoseconds bound) {
  Trial trial;
  for (const Mesh::Axis& axis : problem.mesh.axes) trial.mesh.push_back(axis.size);
  trial.devices = device_list(problem.cluster);
  trial.device_count = int(problem.cluster.devices.size());
  trial.bound_seconds = to_seconds(bound);
  return trial;
}

}  // namespace

void PlanChoice::consider(const Problem& problem, Picoseconds bound, const MakePlans& make) {
  Trial trial = trial_of(problem, bound);
  std::vector<Plan> plans;
  try {
    plans = make(&bound);
    trial.bound_seconds = to_seconds(bound);
    trial.outcome =
        trial.bound_seconds >= seconds_to_beat(problem) ? std::string(cannot_win) : "no plan that is faster was found";
  } catch (const UserError& error) {
    if (error.code() != ExitCode::infeasible) throw;
    if (!infeasible_) infeasible_ = error;
    const Diagnostic& d = error.diagnostic();
    trial.outcome = d.found.empty() ? d.message : d.message + ": " + d.found;
  }
  if (plans.empty()) trials_.push_back(std::move(trial));
  for (size_t i = 0; i < plans.size(); ++i) {
    trial.bound_seconds = std::max(trial.bound_seconds, plans[i].prediction.shares_bound_seconds);
    trial.outcome = i == 0 ? "not faster than the plan" : "not faster than the plan: the same mesh at other shares";
    keep(problem, trial, std::move(plans[i]));
  }
}

void PlanChoice::keep(const Problem& problem, Trial trial, Plan plan) {
  set_figures(problem, plan, &trial);
  const auto score = [&](const Trial& t) {
    return std::pair(score_ == Score::sum ? t.step_seconds : t.timeline_seconds, t.device_count);
  };
  if (!plan_ || score(trial) < score(trials_[taken_])) {
    plan_ = std::move(plan);
    taken_ = trials_.size();
  }
  trials_.push_back(std::move(trial));
}

void PlanChoice::pass_over(const Problem& problem, Picoseconds bound, const std::string& outcome) {
  trials_.push_back(trial_of(problem, bound));
  trials_.back().outcome = outcome;
}

double PlanChoice::seconds_to_beat(const Problem& problem) const {
  if (!plan_) return HUGE_VAL;
  const Picoseconds fastest = to_picoseconds(plan_->prediction.step_seconds);
  if (score_ == Score::timeline) return to_seconds(fastest) * worth_simulating;
  return to_seconds(fastest + (problem.cluster.devices.size() < plan_->devices.size() ? 1 : 0));
}

Plan PlanChoice::take() && {
  trials_[taken_].outcome = "taken";
  plan_->prediction.considered = std::move(trials_);
  return *std::move(plan_);
}

}  // namespace hetsynth::synth
