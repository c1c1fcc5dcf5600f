// The plans that a synthesis meets, of which the best is kept, and what became of the others.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/error.h"
#include "dsl/spmd/plan.h"
#include "synth/model/problem.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::synth {

/// Why a mesh is not searched, or not to the end.
constexpr std::string_view cannot_win = "given up: its bound shows that it cannot win";

class PlanSelector {
 public:
  /// Plans that are searched for from now on count communication that may hide as this part of itself
  /// (CostModel::weigh_hidden). Of meshes on which none is found then nothing is told.
  void weigh_hidden(double weight) { hidden_weight_ = weight; }

  /// Gives plans of a mesh, the fastest first, and may tell a better bound for it.
  using MakePlans = std::function<std::vector<Plan>(Picoseconds* bound)>;

  /// The plans of a mesh below whose `bound` there is none (0: not known). That there is none, or none that fits, is
  /// kept too.
  void consider(const Problem& problem, Picoseconds bound, const MakePlans& make);
  /// A mesh that is not planned, for the reason that `outcome` gives.
  void pass_over(const Cluster& devices, const Mesh& mesh, Picoseconds bound, const std::string& outcome);
  /// False if the check throws that no plan can be: that is kept.
  bool possible(const Problem& problem, Picoseconds bound, const std::function<void()>& check);

  /// What the objective of a plan for so many devices must stay below to be worth having: that of the plan for which
  /// it is least in this pass; `forbidden` as long as there is no plan. Of two equally fast plans the one of fewer
  /// devices is the better.
  Picoseconds to_beat(const Cluster& devices) const;

  /// What is known of the mesh over the devices: no plan adds up to less. 0: nothing.
  double bound_seconds(const Cluster& devices, const Mesh& mesh) const;

  const std::optional<Plan>& plan() const { return plan_; }
  /// Why a plan that did not fit did not: the first of those for most devices.
  const std::optional<UserError>& infeasible() const { return infeasible_; }
  /// Whether one came near enough for all of the memory to be worth a try (NearlyFits).
  bool nearly_fits() const { return nearly_fits_; }

  /// The best plan, with all trials. There must be one.
  Plan take() &&;

 private:
  void keep(const Problem& problem, Trial trial, Plan plan);
  /// The outcome of a trial that ended so. Throws on what is not infeasibility.
  std::string told(const UserError& error, const Cluster& devices);

  double hidden_weight_ = 1;
  std::optional<Plan> plan_;
  size_t taken_ = 0;  ///< its trial
  std::vector<Trial> trials_;
  std::optional<UserError> infeasible_;
  size_t infeasible_devices_ = 0;
  bool nearly_fits_ = false;
};

}  // namespace hetsynth::synth
