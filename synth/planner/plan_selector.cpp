#include "synth/planner/plan_selector.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "synth/mesh/device_subsets.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/step_breakdown.h"

namespace hetsynth::synth {
namespace {

Trial trial_of(const Cluster& devices, const Mesh& mesh, Picoseconds bound) {
  Trial trial;
  for (const Mesh::Axis& axis : mesh.axes) trial.mesh.push_back(axis.size);
  trial.devices = device_list(devices);
  trial.device_count = int(devices.devices.size());
  trial.bound_seconds = to_seconds(bound);
  return trial;
}

}  // namespace

void PlanSelector::consider(const Problem& problem, Picoseconds bound, const MakePlans& make) {
  Trial trial = trial_of(problem.cluster, problem.mesh, bound);
  std::vector<Plan> plans;
  try {
    plans = make(&bound);
    trial.bound_seconds = to_seconds(bound);
    trial.outcome = bound >= to_beat(problem.cluster) ? std::string(cannot_win) : "no plan that is faster was found";
  } catch (const UserError& error) {
    trial.outcome = told(error, problem.cluster);
  }
  if (plans.empty() && hidden_weight_ == 1) trials_.push_back(std::move(trial));
  for (size_t i = 0; i < plans.size(); ++i) {
    // A bound that counts what hides as less is none for what instructions add up to.
    trial.bound_seconds =
        hidden_weight_ < 1 ? 0 : std::max(trial.bound_seconds, plans[i].prediction.shares_bound_seconds);
    trial.outcome = i == 0 ? "not faster than the plan" : "not faster than the plan: the same mesh at other shares";
    keep(problem, trial, std::move(plans[i]));
  }
}

void PlanSelector::keep(const Problem& problem, Trial trial, Plan plan) {
  set_figures(problem, plan, &trial);
  const auto score = [&](const Trial& t) { return std::pair(t.step_seconds, t.device_count); };
  const auto same = [&](const Trial& other) {
    return std::tie(trial.mesh, trial.devices, trial.compute_seconds, trial.communication_seconds) ==
               std::tie(other.mesh, other.devices, other.compute_seconds, other.communication_seconds) &&
           score(trial) == score(other);
  };
  if (std::ranges::any_of(trials_, same)) return;
  if (!plan_ || score(trial) < score(trials_[taken_])) {
    plan_ = std::move(plan);
    taken_ = trials_.size();
  }
  trials_.push_back(std::move(trial));
}

void PlanSelector::pass_over(const Cluster& devices, const Mesh& mesh, Picoseconds bound, const std::string& outcome) {
  if (hidden_weight_ < 1) return;
  trials_.push_back(trial_of(devices, mesh, bound));
  trials_.back().outcome = outcome;
}

bool PlanSelector::possible(const Problem& problem, Picoseconds bound, const std::function<void()>& check) {
  try {
    check();
    return true;
  } catch (const UserError& error) {
    pass_over(problem.cluster, problem.mesh, bound, told(error, problem.cluster));
    return false;
  }
}

std::string PlanSelector::told(const UserError& error, const Cluster& devices) {
  if (error.code() != ExitCode::infeasible) throw error;
  nearly_fits_ |= dynamic_cast<const NearlyFits*>(&error) != nullptr;
  if (!infeasible_ || devices.devices.size() > infeasible_devices_) {
    infeasible_ = error;
    infeasible_devices_ = devices.devices.size();
  }
  const Diagnostic& d = error.diagnostic();
  return d.found.empty() ? d.message : d.message + ": " + d.found;
}

Picoseconds PlanSelector::to_beat(const Cluster& devices) const {
  if (!plan_) return forbidden;
  const auto objective = [&](const Trial& trial) {
    const double seconds = trial.added_seconds() - (1 - hidden_weight_) * trial.hideable_seconds;
    return std::pair(trial.step_seconds > 0 ? to_picoseconds(seconds) : forbidden, trial.device_count);
  };
  const auto [least, count] = objective(*std::ranges::min_element(trials_, {}, objective));
  return least + (int(devices.devices.size()) < count ? 1 : 0);
}

double PlanSelector::bound_seconds(const Cluster& devices, const Mesh& mesh) const {
  const Trial here = trial_of(devices, mesh, 0);
  double most = 0;
  for (const Trial& trial : trials_)
    if (trial.mesh == here.mesh && trial.devices == here.devices) most = std::max(most, trial.bound_seconds);
  return most;
}

Plan PlanSelector::take() && {
  trials_[taken_].outcome = "taken";
  plan_->prediction.considered = std::move(trials_);
  return *std::move(plan_);
}

}  // namespace hetsynth::synth
