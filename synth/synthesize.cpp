#include "synth/synthesize.h"

#include <algorithm>
#include <memory>

#include "dsl/base/error.h"
#include "synth/alternation.h"
#include "synth/baselines.h"
#include "synth/device_subsets.h"
#include "synth/mesh_bound.h"
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

/// A mesh over all devices that may get a plan.
struct MeshCandidate {
  std::unique_ptr<Problem> problem;
  Picoseconds bound = 0;  ///< over all shares
};

std::vector<int> sizes_of(const Mesh& mesh) {
  std::vector<int> sizes;
  for (const Mesh::Axis& axis : mesh.axes) sizes.push_back(axis.size);
  return sizes;
}

Mesh pinned_mesh(const PlanPins& pins) { return {{{"outer", pins.mesh[0]}, {"inner", pins.mesh[1]}}}; }

/// The meshes that the options allow, one axis first.
std::vector<MeshCandidate> mesh_candidates(const Problem& free, const SynthesisOptions& options) {
  std::vector<MeshCandidate> out;
  const PlanPins& pins = options.pins;
  if (pins.mesh.size() < 2) out.push_back({std::make_unique<Problem>(free.analysis, free.cluster, free.mesh)});
  std::vector<Mesh> meshes;
  if (pins.mesh.size() > 1)
    meshes = {pinned_mesh(pins)};
  else if (options.most_axes > 1 && pins.mesh.empty())
    meshes = two_axis_meshes(free.cluster);
  if (!meshes.empty()) {
    auto analysis = std::make_shared<const Analysis>(free.program, 2);
    for (const Mesh& mesh : meshes) out.push_back({std::make_unique<Problem>(analysis, free.cluster, mesh)});
  }
  for (MeshCandidate& candidate : out) candidate.problem->constrain(pins);
  return out;
}

/// The fastest plan over all devices. The mesh of one axis is planned at once: its plan costs little, and shows of most
/// others that they cannot win, or how far their bounds need be told.
void try_meshes(const Problem& free, const SynthesisOptions& options, Budget& budget, Choice* best) {
  std::vector<MeshCandidate> candidates = mesh_candidates(free, options);
  auto fastest = [&] { return best->plan ? best->plan->prediction.step_seconds : HUGE_VAL; };
  auto tell = [&](const MeshCandidate& candidate, double before, const std::string& lost) {
    if (!options.mesh_considered) return;
    MeshVerdict verdict{sizes_of(candidate.problem->mesh), to_seconds(candidate.bound), {}, lost};
    if (fastest() < before) {
      verdict.step_seconds = fastest();
      verdict.reason = "the fastest by then";
      verdict.bound_seconds = std::max(verdict.bound_seconds, best->plan->prediction.shares_bound_seconds);
    }
    options.mesh_considered(verdict);
  };
  auto plan = [&](const MeshCandidate& candidate, std::optional<Picoseconds> bound) {
    const double before = fastest();
    best->consider([&] { return best_plan(*candidate.problem, budget, before, bound); });
    tell(candidate, before, best->plan ? "no faster plan was found" : "no plan fits");
  };
  auto first = candidates.begin();
  if (candidates.front().problem->mesh.axes.size() == 1) plan(*first++, {});
  for (auto it = first; it != candidates.end(); ++it)
    if (!budget.spent()) it->bound = bound_over_mesh_shares(*it->problem, budget.stop(), to_picoseconds(fastest()));
  std::stable_sort(first, candidates.end(), [](const auto& a, const auto& b) { return a.bound < b.bound; });
  for (auto it = first; it != candidates.end(); ++it) {
    if (budget.spent())
      tell(*it, fastest(), "not tried: the time is spent");
    else if (it->bound >= to_picoseconds(fastest()))
      tell(*it, fastest(), "given up: its bound shows that it cannot win");
    else
      plan(*it, it->bound);
  }
}

/// Whether some plan keeps to the pins, whatever its cost and memory.
bool possible(const Problem& free, const PlanPins& pins) {
  auto analysis = pins.mesh.size() > 1 ? std::make_shared<const Analysis>(free.program, 2) : free.analysis;
  Mesh mesh = free.mesh;
  if (pins.mesh.size() > 1) mesh = pinned_mesh(pins);
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
  Problem free(reference, cluster);
  Choice best;
  try_meshes(free, options, budget, &best);
  const bool all_devices = !pins.placements.empty() || !pins.ratio.empty() || !pins.mesh.empty();
  if (options.drop_devices && !all_devices && cluster.devices.size() > 1) drop_devices(free, pins, budget, &best);
  if (!best.plan && best.infeasible) throw *best.infeasible;
  if (!best.plan) throw_no_plan(free, pins);
  best.plan->prediction.baselines = baselines(free);
  best.plan->prediction.cut_short = budget.spent();
  return *std::move(best.plan);
}

}  // namespace hetsynth
