#include "synth/synthesize.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "dsl/base/error.h"
#include "synth/alternation.h"
#include "synth/baselines.h"
#include "synth/device_subsets.h"
#include "synth/memory_floor.h"
#include "synth/meshes.h"
#include "synth/plan_choice.h"
#include "synth/quick_plan.h"
#include "synth/search.h"
#include "synth/share_bound.h"

namespace hetsynth {
namespace {

using namespace synth;

/// A mesh over all devices that may get a plan.
struct MeshCandidate {
  std::unique_ptr<Problem> problem;
  std::unique_ptr<MeshBound> several_axes{};  ///< none on one
  std::optional<Relaxation> one_axis{};       ///< none on several
  Picoseconds bound = 0;                      ///< over all shares

  /// A bound of `enough` or more need not be told exactly, here and below.
  void bound_at_once(Picoseconds enough, const Stop& stop) {
    if (problem->mesh.axes.size() < 2) {
      one_axis = relaxation_over_shares(*problem, stop, enough);
      bound = one_axis->bound;
    } else {
      several_axes = std::make_unique<MeshBound>(*problem, stop);
      bound = several_axes->at_once();
    }
  }
  /// To be called once.
  Relaxation relaxation(Picoseconds enough, const Stop& stop) {
    if (problem->mesh.axes.size() > 1) {
      if (!several_axes) several_axes = std::make_unique<MeshBound>(*problem, stop);
      return several_axes->relaxation(enough);
    }
    return one_axis ? std::move(*one_axis) : relaxation_over_shares(*problem, stop, enough);
  }
};

/// What is known of the program, by the number of mesh axes.
class Analyses {
 public:
  explicit Analyses(const Problem& known) : program_(known.program) {
    by_axes_[known.cluster.devices.size() > 1 ? 1 : 0] = known.analysis;
  }
  const std::shared_ptr<const Analysis>& of(int axes) {
    auto& analysis = by_axes_[axes];
    if (!analysis) analysis = std::make_shared<const Analysis>(program_, axes);
    return analysis;
  }

 private:
  const Program& program_;
  std::map<int, std::shared_ptr<const Analysis>> by_axes_;
};

/// One synthesis over all devices and, if asked, over fewer.
class Planning {
 public:
  Planning(const Problem& all, const SynthesisOptions& options, Budget& budget)
      : all_(all), options_(options), budget_(budget), analyses_(all), choice_(options.score) {}

  PlanChoice run() && {
    try_meshes(all_.cluster);
    const PlanPins& pins = options_.pins;
    const bool needs_all = !pins.placements.empty() || !pins.ratio.empty() || !pins.mesh.empty();
    if (options_.drop_devices && !needs_all && all_.cluster.devices.size() > 1) try_fewer_devices();
    return std::move(choice_);
  }

 private:
  Picoseconds to_beat(const Problem& problem) const { return to_picoseconds(choice_.seconds_to_beat(problem)); }

  /// The meshes over a cluster that the options allow, one axis first.
  std::vector<MeshCandidate> mesh_candidates(const Cluster& cluster) {
    const PlanPins& pins = options_.pins;
    std::vector<Mesh> meshes;
    if (pins.mesh.size() < 2) meshes.push_back(flat_mesh(cluster));
    if (pins.mesh.size() > 1)
      meshes = {mesh_of(pins.mesh)};
    else if (options_.most_axes > 1 && pins.mesh.empty())
      std::ranges::move(two_axis_meshes(cluster), std::back_inserter(meshes));
    if (options_.most_axes > 2 && pins.mesh.empty())
      std::ranges::move(three_axis_meshes(cluster), std::back_inserter(meshes));
    std::vector<MeshCandidate> out;
    for (const Mesh& mesh : meshes) {
      const int axes = mesh.device_count() > 1 ? int(mesh.axes.size()) : 0;
      out.push_back({std::make_unique<Problem>(analyses_.of(axes), cluster, mesh)});
      out.back().problem->constrain(pins);
    }
    return out;
  }

  /// Meshes are planned in the order of their first bounds, until the bounds of the rest show that they cannot win.
  void try_meshes(const Cluster& cluster) {
    std::vector<MeshCandidate> candidates = mesh_candidates(cluster);
    if (candidates.size() > 1) bound_at_once(&candidates);
    std::stable_sort(candidates.begin(), candidates.end(), [](auto& a, auto& b) { return a.bound < b.bound; });
    for (MeshCandidate& candidate : candidates) {
      if (budget_.spent() && choice_.plan())
        choice_.pass_over(*candidate.problem, candidate.bound, "not tried: the time is spent");
      else if (candidate.bound >= to_beat(*candidate.problem))
        choice_.pass_over(*candidate.problem, candidate.bound, std::string(cannot_win));
      else
        plan(candidate);
      candidate.several_axes.reset();
    }
  }

  /// Keeps what was worked out for the mesh with the least bound only: with many meshes it is much.
  void bound_at_once(std::vector<MeshCandidate>* candidates) {
    MeshCandidate* least = nullptr;
    for (MeshCandidate& candidate : *candidates) {
      if (budget_.spent()) return;
      candidate.bound_at_once(to_beat(*candidate.problem), budget_.stop());
      MeshCandidate* other = least;
      if (!least || candidate.bound < least->bound) least = &candidate;
      if (other) (other == least ? candidate : *other).several_axes.reset();
    }
  }

  void plan(MeshCandidate& candidate) {
    const Problem& problem = *candidate.problem;
    choice_.consider(problem, candidate.bound, [&](Picoseconds* bound) {
      check_memory_floor(problem);
      Candidate at_hand = quick_plan(problem, budget_);
      Relaxation relaxation = candidate.relaxation(to_beat(problem), budget_.stop());
      *bound = relaxation.bound;
      std::vector<Plan> plans = best_plans(problem, budget_, choice_.seconds_to_beat(problem), std::move(relaxation),
                                           std::move(at_hand), options_.runners_up);
      for (Plan& plan : plans) plan.cluster_hash = hash_text(all_.cluster);
      return plans;
    });
  }

  /// Plans of fewer devices may beat the one which uses all.
  void try_fewer_devices() {
    const Cluster alone = restricted(all_.cluster, {fastest_device(all_)});
    choice_.consider(Problem(analyses_.of(0), alone, flat_mesh(alone)), 0,
                     [&](Picoseconds*) { return std::vector<Plan>{synth::single_device_plan(all_)}; });
    std::vector<std::vector<int>> subsets = device_subsets(all_.cluster);
    for (size_t i = 1; i < subsets.size(); ++i) try_devices(subsets[i]);
    // A device that is given no part of the work still takes part in collectives.
    if (!choice_.plan()) return;
    const std::vector<int> working = working_devices(*choice_.plan());
    if (working.size() > 1 && std::ranges::find(subsets, working) == subsets.end()) try_devices(working);
  }

  void try_devices(const std::vector<int>& devices) {
    const Cluster cluster = restricted(all_.cluster, devices);
    const Problem part(analyses_.of(devices.size() > 1 ? 1 : 0), cluster, flat_mesh(cluster));
    const Picoseconds ideal = to_picoseconds(ideal_seconds(part));
    if (budget_.spent() && choice_.plan())
      choice_.pass_over(part, ideal, "not tried: the time is spent");
    else if (ideal >= to_beat(part))
      choice_.pass_over(part, ideal, "given up: too slow even without communication");
    else
      try_meshes(cluster);
  }

  /// Those of the cluster that the plan gives a part of the work.
  std::vector<int> working_devices(const Plan& plan) const {
    std::set<std::string> working;
    for (const DevicePrediction& device : plan.prediction.devices)
      if (device.share > 0) working.insert(device.device);
    std::vector<int> out;
    for (size_t d = 0; d < all_.cluster.devices.size(); ++d)
      if (working.count(all_.cluster.devices[d].name)) out.push_back(int(d));
    return out;
  }

  const Problem& all_;
  const SynthesisOptions& options_;
  Budget& budget_;
  Analyses analyses_;
  PlanChoice choice_;
};

/// Whether some plan keeps to the pins, whatever its cost and memory.
bool possible(const Problem& free, const PlanPins& pins) {
  auto analysis = pins.mesh.size() > 1 ? std::make_shared<const Analysis>(free.program, 2) : free.analysis;
  Mesh mesh = free.mesh;
  if (pins.mesh.size() > 1) mesh = mesh_of(pins.mesh);
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
  PlanChoice choice = Planning(free, options, budget).run();
  if (!choice.plan() && choice.infeasible()) throw *choice.infeasible();
  if (!choice.plan()) throw_no_plan(free, pins);
  Plan plan = std::move(choice).take();
  plan.prediction.baselines = baselines(free);
  plan.prediction.cut_short = budget.spent();
  return plan;
}

}  // namespace hetsynth
