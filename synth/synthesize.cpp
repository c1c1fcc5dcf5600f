#include "synth/synthesize.h"

#include "dsl/base/error.h"
#include "synth/alternation.h"
#include "synth/baselines.h"
#include "synth/device_subsets.h"
#include "synth/meshes.h"
#include "synth/search.h"

namespace hetsynth {
namespace {

using namespace synth;

/// The fastest of the plans considered, and why there is none.
struct Choice {
  std::optional<Plan> plan;
  std::optional<UserError> infeasible;  ///< of the first plan that did not fit

  void consider(auto make_plan) {
    try {
      std::optional<Plan> made = make_plan();
      if (made && (!plan || made->prediction.step_seconds < plan->prediction.step_seconds)) plan = std::move(made);
    } catch (const UserError& error) {
      if (error.code() != ExitCode::infeasible) throw;
      if (!infeasible) infeasible = error;
    }
  }
};

/// Plans of fewer devices that beat the one which uses all.
void drop_devices(const Problem& all, const PlanPins& pins, Budget& budget, Choice* best) {
  best->consider([&] { return synth::single_device_plan(all); });
  std::vector<std::vector<int>> subsets = device_subsets(all.cluster);
  for (size_t i = 1; i < subsets.size() && (!budget.spent() || !best->plan); ++i) {
    Cluster cluster = restricted(all.cluster, subsets[i]);
    Problem part(all.analysis, cluster, flat_mesh(cluster));
    part.constrain(pins);
    if (best->plan && ideal_seconds(part) >= best->plan->prediction.step_seconds) continue;
    best->consider([&] {
      std::optional<Plan> plan = best_plan(part, budget, best->plan ? best->plan->prediction.step_seconds : HUGE_VAL);
      if (plan) plan->cluster_hash = hash_text(all.cluster);
      return plan;
    });
  }
}

/// Plans on two mesh axes that beat the one on a single axis.
void try_two_axes(const Problem& all, const PlanPins& pins, Budget& budget, Choice* best) {
  std::vector<Mesh> meshes = two_axis_meshes(all.cluster);
  if (!pins.mesh.empty()) meshes = {{{{"outer", pins.mesh[0]}, {"inner", pins.mesh[1]}}}};
  if (meshes.empty() || budget.spent()) return;
  auto analysis = std::make_shared<const Analysis>(all.program, 2);
  for (const Mesh& mesh : meshes) {
    if (budget.spent()) return;
    Problem problem(analysis, all.cluster, mesh);
    problem.constrain(pins);
    best->consider(
        [&] { return best_plan(problem, budget, best->plan ? best->plan->prediction.step_seconds : HUGE_VAL); });
  }
}

/// Whether some plan keeps to the pins, whatever its cost and memory.
bool possible(const Problem& free, const PlanPins& pins) {
  auto analysis = pins.mesh.size() > 1 ? std::make_shared<const Analysis>(free.program, 2) : free.analysis;
  Mesh mesh = free.mesh;
  if (pins.mesh.size() > 1) mesh = {{{"outer", pins.mesh[0]}, {"inner", pins.mesh[1]}}};
  Problem problem(analysis, free.cluster, mesh);
  problem.constrain(pins);
  Shares shares = common_shares(problem.classes, fractions_of(problem, RatioRule::even));
  Conversions conversions(*problem.analysis, problem.cost, shares);
  SearchLimits any;
  any.tolerance = 1e3;
  return !search(problem, conversions, shares, {}, any).choices.empty();
}

/// Names the pins that contradict each other: none of them can be left out of the list.
[[noreturn]] void throw_no_plan(const Problem& free, PlanPins pins) {
  const bool conflict = !possible(free, pins);
  for (size_t i = 0; conflict && i < pin_texts(pins).size();) {
    PlanPins fewer = without_pin(pins, i);
    if (possible(free, fewer))
      ++i;
    else
      pins = std::move(fewer);
  }
  std::string list;
  for (const std::string& text : pin_texts(pins)) list += (list.empty() ? "" : ", ") + text;
  throw UserError({.tag = "pins",
                   .message = conflict ? "no plan keeps to these pins together"
                                       : "no plan that keeps to the pins was found in the time given",
                   .expected = conflict ? "pins that some program meets" : "more time",
                   .found = list,
                   .mend = conflict ? "leave out one of them" : "raise --time-limit, or leave out a pin"},
                  ExitCode::infeasible);
}

}  // namespace

Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options) {
  Budget budget(options);
  const PlanPins& pins = options.pins;
  check_pins(pins, cluster);
  Problem free(reference, cluster), problem(free.analysis, cluster, free.mesh);
  Choice best;
  if (pins.mesh.size() < 2) {
    problem.constrain(pins);
    best.consider([&] { return best_plan(problem, budget); });
  }
  if (options.most_axes > 1 || pins.mesh.size() > 1)
    if (pins.mesh.size() != 1) try_two_axes(problem, pins, budget, &best);
  const bool all_devices = !pins.placements.empty() || !pins.ratio.empty() || !pins.mesh.empty();
  if (options.drop_devices && !all_devices && cluster.devices.size() > 1) drop_devices(problem, pins, budget, &best);
  if (!best.plan && best.infeasible) throw *best.infeasible;
  if (!best.plan) throw_no_plan(free, pins);
  best.plan->prediction.baselines = baselines(free);
  best.plan->prediction.cut_short = budget.spent();
  return *std::move(best.plan);
}

}  // namespace hetsynth
