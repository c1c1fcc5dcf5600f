#include "synth/planner/synthesize.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "dsl/base/error.h"
#include "synth/alternation/alternation.h"
#include "synth/baselines/baselines.h"
#include "synth/mesh/device_subsets.h"
#include "synth/mesh/meshes.h"
#include "synth/planner/anytime_fallback.h"
#include "synth/planner/mesh_candidate.h"
#include "synth/planner/pin_conflicts.h"
#include "synth/planner/plan_selector.h"
#include "synth/schedule/memory_floor.h"
#include "synth/schedule/timeline.h"
#include "synth/shares/start_shares.h"
#include "synth/support/parameters.h"

namespace hetsynth {
namespace {

using namespace synth;

/// What is known of the program, by the number of mesh axes and whether two of them may cut one dimension.
class Analyses {
 public:
  explicit Analyses(const Problem& known) : known_(*known.analysis) {
    const int axes = known.cluster.devices.size() > 1 ? 1 : 0;
    by_axes_[{axes, NestedCuts::none}] = known.analysis;
  }
  const std::shared_ptr<const Analysis>& of(int axes, NestedCuts nested = NestedCuts::of_samples) {
    auto& analysis = by_axes_[{axes, axes == 2 ? nested : NestedCuts::none}];
    if (!analysis)
      analysis =
          axes == 0 ? Analysis::of_one_device(known_) : std::make_shared<const Analysis>(known_.program, axes, nested);
    return analysis;
  }

 private:
  const Analysis& known_;
  std::map<std::pair<int, NestedCuts>, std::shared_ptr<const Analysis>> by_axes_;
};

/// One synthesis over all devices and, if asked, over fewer: best first. Of the meshes over all sets of devices, that
/// with the least bound is looked at more closely, until the one with the least bound is known well enough to be
/// planned.
class Planning {
 public:
  Planning(const Problem& all, const SynthesisOptions& options, Budget& budget)
      : all_(all), options_(options), budget_(budget), analyses_(all) {}

  PlanSelector run() && {
    add_meshes(all_.cluster);
    const PlanPins& pins = options_.pins;
    const bool fewer = options_.drop_devices && !pins.need_all_devices() && all_.cluster.devices.size() > 1;
    if (fewer) add_fewer_devices();
    settle();
    if (fewer) try_working_devices();
    // A pinned mesh of one axis has all devices.
    const bool flat = pins.mesh.size() == 1 && pins.placements.empty() && pins.ratio.empty();
    if (flat) subsets_ = {device_subsets(all_.cluster).front()};
    if ((fewer || flat) && choice_.plan()) consider_what_may_unfold_faster();
    return std::move(choice_);
  }

 private:
  /// Plans that add up to more.
  void consider_what_may_unfold_faster() {
    choice_.weigh_hidden(hidden_weight_ = half_hidden);
    budget_.measure_otherwise();
    if (options_.effort != Effort::quick) search_where_communication_hides();
    const PlanPins& pins = options_.pins;
    if (pins.placements.empty() && pins.ratio.empty() && pins.forbidden.empty() && pins.mesh.size() < 2)
      consider_plans_by_hand();
  }

  /// Plans of one axis over every set of devices that may be faster, where communication that may hide beside computing
  /// counts half: their instructions add up to more, but their steps may be shorter as they unfold. With full effort on
  /// all meshes.
  void search_where_communication_hides() {
    on_one_axis_.clear();
    for (const std::vector<int>& subset : subsets_) {
      const auto devices = std::make_shared<const Cluster>(restricted(all_.cluster, subset));
      const Problem flat(analyses_.of(devices->devices.size() > 1 ? 1 : 0), *devices, flat_mesh(*devices));
      const double least = least_busy_seconds(flat);
      if (budget_.spent() || !communicate_beside_computing(*devices) ||
          least >= choice_.plan()->prediction.step_seconds)
        continue;
      plan({flat.analysis, devices, flat.mesh, options_.pins, to_picoseconds(least), all_.fills_memory, hidden_weight_},
           forbidden);
      if (options_.effort == Effort::full) add_meshes(*devices);
    }
    settle();
  }

  /// What people would write by hand is taken if it is faster as it unfolds. Of tensor parallelism the cheapest plan is
  /// searched for, where that takes little time.
  void consider_plans_by_hand() {
    const auto plan = [&](RatioRule rule, bool tensor) {
      Plan out = tensor ? tensor_parallel_plan(all_, rule) : data_parallel_plan(all_, rule);
      const double bound = choice_.bound_seconds(all_.cluster, all_.mesh);
      out.prediction.lower_bound_seconds = out.prediction.shares_bound_seconds =
          std::min(bound, out.prediction.objective_seconds);
      return out;
    };
    measured("plans by hand", [&] {
      for (const bool tensor : {false, true})
        for (const RatioRule rule : {RatioRule::proportional, RatioRule::even})
          if (!tensor || budget_.patient())
            choice_.consider(all_, 0, [&](Picoseconds*) { return std::vector<Plan>{plan(rule, tensor)}; });
    });
  }

  /// The meshes over some devices that the options allow, one axis first.
  void add_meshes(const Cluster& given) {
    const auto devices = std::make_shared<const Cluster>(given);
    const PlanPins& pins = options_.pins;
    std::vector<Mesh> meshes;
    if (pins.mesh.size() < 2) meshes.push_back(flat_mesh(given));
    if (pins.mesh.size() > 1)
      meshes = {mesh_of(pins.mesh)};
    else if (options_.most_axes > 1 && pins.mesh.empty())
      std::ranges::move(two_axis_meshes(given), std::back_inserter(meshes));
    if (options_.most_axes > 2 && pins.mesh.empty())
      std::ranges::move(three_axis_meshes(given), std::back_inserter(meshes));
    const Problem flat(analyses_.of(given.devices.size() > 1 ? 1 : 0), given, flat_mesh(given));
    const Picoseconds ideal = to_picoseconds(ideal_seconds(flat));
    for (const Mesh& mesh : meshes) {
      const int axes = mesh.device_count() > 1 ? int(mesh.axes.size()) : 0;
      waiting_.push_back({analyses_.of(axes), devices, mesh, pins, ideal, all_.fills_memory, hidden_weight_});
    }
  }

  /// Plans of fewer devices may beat the one which uses all.
  void add_fewer_devices() {
    const Cluster alone = restricted(all_.cluster, {fastest_device(all_)});
    choice_.consider(Problem(analyses_.of(0), alone, flat_mesh(alone)), 0,
                     [&](Picoseconds*) { return std::vector<Plan>{synth::single_device_plan(all_)}; });
    subsets_ = device_subsets(all_.cluster);
    for (size_t i = 1; i < subsets_.size(); ++i) add_meshes(restricted(all_.cluster, subsets_[i]));
  }

  /// A device that is given no part of the work still takes part in collectives.
  void try_working_devices() {
    if (!choice_.plan()) return;
    const std::vector<int> working = working_devices(*choice_.plan());
    if (working.size() < 2 || std::ranges::find(subsets_, working) != subsets_.end()) return;
    add_meshes(restricted(all_.cluster, working));
    settle();
  }

  /// Until a mesh is planned whose bound is the least, and the bounds of the rest show that they cannot win.
  void settle() {
    while (!waiting_.empty()) {
      MeshCandidate candidate = next();
      const Cluster& devices = *candidate.devices();
      const bool late = budget_.spent() && (planned_ || budget_.gave_up()),
                 cannot = candidate.bound() >= choice_.to_beat(devices);
      if (late && !cannot)
        choice_.pass_over(devices, candidate.mesh(), candidate.bound(), "not tried: planning ended before");
      else if (cannot && !late && is_what_others_are_told_against(candidate))
        plan(std::move(candidate), forbidden);
      else if (cannot)
        choice_.pass_over(
            devices, candidate.mesh(), candidate.bound(),
            candidate.known() == 0 ? "given up: too slow even without communication" : std::string(cannot_win));
      else if (candidate.relaxed() || in_a_hurry())
        plan(std::move(candidate), choice_.to_beat(devices));
      else
        learn(std::move(candidate));
    }
  }

  /// That with the least bound; where there is no time to learn more, of those of which most is known. Of many, one
  /// axis first until there is a plan: it is soon there, and others are given up by it.
  MeshCandidate next() {
    const bool hurry = in_a_hurry(), one_axis_first = !planned_ && !subsets_.empty();
    const auto key = [&](const MeshCandidate& candidate) {
      return std::tuple(one_axis_first ? candidate.mesh().axes.size() : 0, hurry ? -candidate.known() : 0,
                        likely(candidate));
    };
    const auto it = std::ranges::min_element(waiting_, {}, key);
    MeshCandidate out = std::move(*it);
    waiting_.erase(it);
    return out;
  }

  /// All devices on one axis: why fewer are faster is best told by a plan, where that is soon there.
  bool is_what_others_are_told_against(const MeshCandidate& candidate) const {
    return candidate.devices()->devices.size() == all_.cluster.devices.size() && candidate.mesh().axes.size() < 2 &&
           budget_.patient() && hidden_weight_ == 1;
  }

  /// What a step on it will take at least, as far as one can tell: where only the ideal is known, what is known of one
  /// axis over the same devices.
  Picoseconds likely(const MeshCandidate& candidate) const {
    const auto it = on_one_axis_.find(candidate.devices());
    return candidate.known() > 0 || it == on_one_axis_.end() ? candidate.bound() : it->second;
  }

  /// A good part of the time is gone, and there is no plan.
  bool in_a_hurry() { return !planned_ && budget_.part_spent() > part_for_bounds; }

  void learn(MeshCandidate candidate) {
    const auto check = [&] { check_memory_floor(candidate.problem()); };
    if (candidate.known() == 0 && !choice_.possible(candidate.problem(), candidate.bound(), check)) return;
    measured("bounds of meshes", [&] { candidate.learn(choice_.to_beat(*candidate.devices()), budget_.stop()); });
    if (candidate.mesh().axes.size() < 2) on_one_axis_[candidate.devices()] = candidate.bound();
    waiting_.push_back(std::move(candidate));
    std::vector<MeshCandidate*> best_first;
    for (MeshCandidate& other : waiting_) best_first.push_back(&other);
    std::ranges::stable_sort(best_first, {}, [&](auto* other) { return likely(*other); });
    keep_within(most_values_kept, std::move(best_first));
  }

  void plan(MeshCandidate candidate, Picoseconds to_beat) {
    const Problem& problem = candidate.problem();
    const bool wider = candidate.mesh().axes.size() == 2 && candidate.rules().nested == NestedCuts::none;
    bool narrow = false;  // the space, and try again
    budget_.begin_mesh();
    choice_.consider(problem, candidate.bound(), [&](Picoseconds* bound) {
      check_memory_floor(problem);
      narrow = true;  // unless something fits
      Candidate at_hand;
      measured("a plan at hand", [&] { at_hand = anytime_fallback(problem, budget_); });
      measured("bounds of meshes", [&] {
        while (!candidate.relaxed()) candidate.learn(to_beat, budget_.stop());
      });
      *bound = candidate.bound();
      std::vector<Plan> plans = best_plans(problem, budget_, to_beat, std::move(candidate).relaxation(),
                                           std::move(at_hand), options_.runners_up);
      for (Plan& plan : plans) plan.cluster_hash = hash_text(all_.cluster);
      // What is proven is so for all plans of the mesh.
      if (wider) *bound = candidate.least();
      for (Plan& plan : plans)
        if (wider) limit_bounds(candidate.least(), &plan.prediction);
      planned_ = true;
      narrow = !plans.empty() && budget_.patient() && short_of_memory(plans.front()) &&
               plans.front().prediction.objective_seconds > to_seconds(*bound) * (1 + wide_gap);
      return plans;
    });
    if (narrow && candidate.rules().nested_class >= 0)
      waiting_.push_back({analyses_.of(2, NestedCuts::none), candidate.devices(), candidate.mesh(), options_.pins,
                          candidate.bound(), all_.fills_memory, hidden_weight_});
  }

  /// Work that finds no plan of its own.
  void measured(const char* name, const std::function<void()>& work) {
    budget_.run(
        name, [] { return forbidden; }, work);
  }

  static bool short_of_memory(const Plan& plan) {
    return std::ranges::any_of(plan.prediction.devices,
                               [](const DevicePrediction& device) { return device.fullness() > nearly_full; });
  }

  static void limit_bounds(Picoseconds most, Prediction* prediction) {
    for (double* bound : {&prediction->lower_bound_seconds, &prediction->shares_bound_seconds})
      *bound = std::min(*bound, to_seconds(most));
    prediction->optimal = prediction->optimal && prediction->lower_bound_seconds >= prediction->objective_seconds;
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
  PlanSelector choice_;
  std::vector<MeshCandidate> waiting_;
  std::vector<std::vector<int>> subsets_;                              ///< of devices, all of them first
  std::map<std::shared_ptr<const Cluster>, Picoseconds> on_one_axis_;  ///< by devices: the bound
  bool planned_ = false;                                               ///< some mesh was
  double hidden_weight_ = 1;                                           ///< CostModel::weigh_hidden
};

}  // namespace

Plan synthesize(const Program& reference, const Cluster& cluster, const SynthesisOptions& options) {
  Budget budget(options.time_limit_seconds, options.progress, options.effort, options.gives_up);
  const PlanPins& pins = options.pins;
  check_pins(pins, cluster);
  Problem free(reference, cluster);
  PlanSelector choice = Planning(free, options, budget).run();
  // Where none leaves some memory for what programs ask for beyond their plans.
  if (!choice.plan() && choice.nearly_fits() && !budget.spent()) {
    free.fills_memory = true;
    choice = Planning(free, options, budget).run();
  }
  if (!choice.plan() && choice.infeasible()) throw *choice.infeasible();
  if (!choice.plan()) throw_no_plan(free, pins);
  Plan plan = std::move(choice).take();
  budget.run(
      "baselines", [] { return forbidden; }, [&] { plan.prediction.baselines = baselines(free); });
  plan.prediction.floor_seconds = least_busy_seconds(free);
  if (options.strategies) *options.strategies = budget.strategies();
  plan.prediction.cut_short = budget.spent();
  return plan;
}

}  // namespace hetsynth
