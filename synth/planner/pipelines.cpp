#include "synth/planner/pipelines.h"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "dsl/transform/turns.h"
#include "synth/mesh/device_subsets.h"
#include "synth/planner/scheduled_pipeline.h"
#include "synth/schedule/lower.h"
#include "synth/stages/device_groups.h"
#include "synth/stages/group_costs.h"
#include "synth/stages/group_plans.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_plan.h"
#include "synth/stages/staged_prediction.h"
#include "synth/support/parameters.h"

namespace hetsynth {
namespace {

using namespace synth;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// What a step may take by the formula of divisions, or by its schedule, to be looked at beside one to beat.
double worth(double to_beat) { return to_beat * (1 + foreseen_above); }

/// The step in so many turns.
class PipelinesAtTurns {
 public:
  PipelinesAtTurns(Program step, int64_t turns, const Cluster& cluster, const PipelineOptions& options)
      : step_(std::make_shared<const Program>(std::move(step))),
        turns_(turns),
        cluster_(cluster),
        options_(options),
        program_(*step_),
        positions_(stage_positions(program_)) {}

  /// The step on groups of this size that lose nothing.
  StageProblem ideal(int size) const {
    StageProblem stages = ideal_stage_problem(analyses(), cluster_, groups_of(cluster_, size), positions_);
    stages.stages = options_.stages.value_or(0);
    return stages;
  }

  /// Returns pipelines on groups of this size, on so many axes, that fit and may be faster than `to_beat`. `unfit`, if
  /// given, becomes the one that lacks least memory of those that do not fit.
  std::vector<Pipeline> on_groups_of(int size, size_t axes, StageProblem::Counted counted, double to_beat,
                                     std::optional<UnfitPipeline>* unfit = nullptr) const {
    const DeviceGroups groups = groups_of(cluster_, size);
    const Cluster one = restricted(cluster_, groups.groups[0]);
    std::vector<Pipeline> out;
    for (const GroupPlan& plan : group_plans(analyses(), one, group_meshes(one).at(axes - 1))) {
      const auto problem = [&](bool recompute) {
        StageProblem stages = stage_problem(plan.analysis, cluster_, groups, plan.program, positions_, recompute);
        stages.stages = options_.stages.value_or(0);
        stages.counted = counted;
        stages.both_ways = sending_of(cluster_) == Sending::both_ways;
        stages.to_beat = to_beat < infinite ? worth(to_beat) : 0;
        return stages;
      };
      // Returns whether memory makes the pipeline slower, or impossible.
      const auto add = [&](Pipeline made, ShortStage way) {
        std::optional<Pipeline> fits = scheduled(std::move(made), way, unfit);
        const bool is_short = !fits || fits->short_of_memory;
        if (fits) out.push_back(std::move(*fits));
        return is_short;
      };
      StageProblem stages = problem(false);
      const std::vector<StageDivision> kept = divide_into_stages(stages, most_divisions);
      bool memory_limits = kept.empty();
      for (const StageDivision& division : kept) {
        const Pipeline made = staged(groups, plan.program, division);
        if (!add(made, ShortStage::waits)) continue;
        if (options_.recompute) add(made, ShortStage::recomputes);
        memory_limits = true;
      }
      if (!options_.recompute) continue;
      stages.counted = StageProblem::Counted::no_memory;
      if (!memory_limits) memory_limits = divide_into_stages(stages, 1)[0].seconds < kept[0].seconds;
      if (!memory_limits) continue;
      for (const StageDivision& division : divide_into_stages(problem(true), most_divisions))
        add(staged(groups, plan.program, division), ShortStage::recomputes);
    }
    return out;
  }

  int64_t turns() const { return turns_; }
  /// How many axes groups of this size can have.
  size_t most_axes(int size) const {
    return group_meshes(restricted(cluster_, groups_of(cluster_, size).groups[0])).size();
  }

 private:
  AnalysisOfAxes analyses() const {
    return [this](int axes) {
      std::shared_ptr<const Analysis>& known = analyses_[axes];
      if (!known)
        known = axes == 0 ? Analysis::of_one_device(*analyses()(1)) : std::make_shared<const Analysis>(*step_, axes);
      return known;
    };
  }

  /// The division as a program, whose turns have no order yet.
  Pipeline staged(const DeviceGroups& groups, const SpmdProgram& group, const StageDivision& division) const {
    // Stages are numbered in the order of the cluster, as ranks are: whoever starts processes goes by that.
    std::vector<const std::vector<int>*> members;  // by segment
    for (const StageProblem::Group& g : division.groups)
      members.push_back(&groups.groups[size_t(groups.kinds[size_t(g.kind)][size_t(g.number)])]);
    std::set<std::vector<int>> stages;
    for (const std::vector<int>* group : members) stages.insert(*group);
    std::vector<int> devices;
    for (const std::vector<int>& group : stages) devices.insert(devices.end(), group.begin(), group.end());
    StageCuts cuts{division.ends, {}};
    std::vector<int> under_way(stages.size(), 0);
    for (size_t segment = 0; segment < members.size(); ++segment) {
      cuts.stage.push_back(int(std::distance(stages.begin(), stages.find(*members[segment]))));
      int& turns = under_way[size_t(cuts.stage.back())];
      if (turns == 0) turns = 2 * (division.stages() - int(segment));
    }
    Pipeline out{step_,
                 analyses()(1),
                 turns_,
                 groups.size,
                 restricted(cluster_, devices),
                 staged_plan(program_, group, positions_, cuts),
                 std::move(under_way)};
    tell_hosts(out.ranks, &out.program);
    return out;
  }

  const std::shared_ptr<const Program> step_;
  const int64_t turns_;
  const Cluster& cluster_;
  const PipelineOptions& options_;
  const Program& program_;
  const StagePositions positions_;
  mutable std::map<int, std::shared_ptr<const Analysis>> analyses_;  ///< by number of axes
};

/// The numbers of turns that are tried: twice as many each time.
std::vector<int64_t> turns_to_try(const Program& whole, const PipelineOptions& options) {
  if (options.turns) return {*options.turns};
  std::vector<int64_t> out;
  for (const int64_t turns : possible_turns(whole))
    if (turns <= most_pipelined_turns && (out.empty() || turns >= 2 * out.back())) out.push_back(turns);
  return out;
}

/// Steps in turns, and sizes of groups to divide each by.
class Settings {
 public:
  struct Setting {
    const PipelinesAtTurns* at;
    int size;
    StageProblem ideal;       ///< of groups that lose nothing
    double least = 0;         ///< by the formula, of any division of that
    bool is_divided = false;  ///< `least` is that of the best division
  };

  Settings(const Program& whole, const Cluster& cluster, const PipelineOptions& options) {
    for (const int64_t turns : turns_to_try(whole, options)) {
      Turns taken = take_turns(whole, {turns});
      if (!taken.program || options.stop()) break;
      steps_.push_back(std::make_unique<PipelinesAtTurns>(std::move(*taken.program), turns, cluster, options));
      for (const int size : group_sizes(cluster, most_groups)) {
        StageProblem ideal = steps_.back()->ideal(size);
        const double least = least_of_any_division(ideal);
        list_.push_back({steps_.back().get(), size, std::move(ideal), least});
      }
    }
  }

  /// Takes the setting that could be fastest of those that could be faster than `to_beat`; null: there is none.
  const Setting* next(double to_beat) {
    for (;;) {
      const auto best = std::ranges::min_element(list_, {}, &Setting::least);
      if (best == list_.end() || best->least >= to_beat) return nullptr;
      if (best->is_divided) {
        taken_.splice(taken_.end(), list_, best);
        return &taken_.back();
      }
      best->ideal.to_beat = to_beat < infinite ? to_beat : 0;
      const std::vector<StageDivision> divisions = divide_into_stages(best->ideal, 1);
      best->least = divisions.empty() ? infinite : divisions[0].seconds;
      best->is_divided = true;
    }
  }
  void begin_again() { list_.splice(list_.begin(), taken_); }

 private:
  std::vector<std::unique_ptr<PipelinesAtTurns>> steps_;
  std::list<Setting> list_, taken_;
};

/// Returns pipelines of numbers of turns and sizes of groups, those first that could be fastest, until those that are
/// left cannot beat what was found; and where those on one axis were fastest, pipelines of groups on two.
std::vector<Pipeline> pipelines(Settings& settings, const PipelineOptions& options, StageProblem::Counted counted,
                                std::vector<TurnTrial>* tried) {
  std::vector<Pipeline> out;
  std::map<std::pair<int64_t, int>, TurnTrial> told;
  double to_beat = options.to_beat > 0 ? options.to_beat : infinite;
  // Returns what the fastest takes that was found.
  const auto look_at = [&](const Settings::Setting& setting, size_t axes) {
    std::vector<Pipeline> made = setting.at->on_groups_of(setting.size, axes, counted, to_beat);
    const auto best = std::ranges::min_element(made, {}, &Pipeline::seconds);
    if (best == made.end()) return infinite;
    const double seconds = best->seconds;
    to_beat = std::min(to_beat, seconds);
    const int64_t turns = setting.at->turns();
    TurnTrial& trial = told[{turns, setting.size}];
    if (trial.step_seconds == 0 || seconds < trial.step_seconds)
      trial = {.turns = hetsynth::text(TurnCount{turns}),
               .stages = best->stages(),
               .stage_devices = setting.size,
               .step_seconds = seconds,
               .compute_seconds = best->busiest.compute_seconds,
               .communication_seconds = best->busiest.communication_seconds,
               .short_of_memory = best->short_of_memory};
    std::ranges::move(made, std::back_inserter(out));
    return seconds;
  };
  std::vector<std::pair<double, const Settings::Setting*>> by_seconds;
  while (const Settings::Setting* setting = options.stop() ? nullptr : settings.next(worth(to_beat))) {
    const double seconds = look_at(*setting, 1);
    if (setting->at->most_axes(setting->size) > 1) by_seconds.push_back({seconds, setting});
  }
  std::ranges::stable_sort(by_seconds, {}, &std::pair<double, const Settings::Setting*>::first);
  for (size_t i = 0; i < std::min(by_seconds.size(), most_on_two_axes) && !options.stop(); ++i)
    look_at(*by_seconds[i].second, 2);
  for (auto& [setting, trial] : told) tried->push_back(std::move(trial));
  return out;
}

Plan simulated(const Pipeline& pipeline, const Cluster& cluster) {
  const Problem problem(pipeline.analysis, pipeline.ranks, pipeline.program.mesh);
  return pipeline_plan(problem, pipeline.program, pipeline.memory, cluster);
}

/// What the simulation of a pipeline says takes the place of what its schedule said.
void tell(const Pipeline& pipeline, const Prediction& prediction, std::vector<TurnTrial>* tried) {
  const BusiestDevice busiest = busiest_device(prediction.devices);
  for (TurnTrial& trial : *tried) {
    if (trial.turns != hetsynth::text(TurnCount{pipeline.turns}) || trial.stage_devices != pipeline.group_size)
      continue;
    trial.step_seconds = prediction.step_seconds;
    trial.stages = pipeline.stages();
    trial.compute_seconds = busiest.compute_seconds;
    trial.communication_seconds = busiest.communication_seconds;
    trial.short_of_memory = pipeline.short_of_memory;
  }
}

}  // namespace

BusiestDevice busiest_device(const std::vector<DevicePrediction>& devices) {
  const auto busiest = std::ranges::max_element(devices, {}, &DevicePrediction::busy_seconds);
  if (busiest == devices.end()) return {};
  return {busiest->compute_seconds, std::max(0.0, busiest->communication_seconds - busiest->hidden_seconds)};
}

std::optional<UnfitPipeline> nearest_to_fitting(const Program& whole, const Cluster& cluster,
                                                const PipelineOptions& options) {
  std::optional<UnfitPipeline> out;
  for (const int64_t turns : turns_to_try(whole, options)) {
    Turns taken = take_turns(whole, {turns});
    if (!taken.program || options.stop()) break;
    const PipelinesAtTurns at(std::move(*taken.program), turns, cluster, options);
    for (const int size : group_sizes(cluster, most_groups))
      at.on_groups_of(size, 1, StageProblem::Counted::no_memory, infinite, &out);
  }
  return out;
}

std::optional<PipelinePlan> best_pipeline(const Program& whole, const Cluster& cluster, const PipelineOptions& options,
                                          std::vector<TurnTrial>* tried) {
  Settings settings(whole, cluster, options);
  std::vector<Pipeline> found = pipelines(settings, options, StageProblem::Counted::all_turns, tried);
  if (found.empty() && options.stages && !options.stop()) {
    settings.begin_again();
    found = pipelines(settings, options, StageProblem::Counted::one_turn, tried);
  }
  std::ranges::stable_sort(found, {}, &Pipeline::seconds);
  std::map<std::pair<int64_t, int>, double> simulated_seconds;  // the least, by turns and size of groups
  std::optional<PipelinePlan> best;
  double to_beat = options.to_beat > 0 ? options.to_beat : infinite;
  for (size_t i = 0; i < std::min(found.size(), most_simulated_pipelines) && found[i].seconds < worth(to_beat); ++i) {
    const Pipeline& pipeline = found[i];
    Plan plan = simulated(pipeline, cluster);
    const double seconds = plan.prediction.step_seconds;
    const auto [least, fresh] = simulated_seconds.try_emplace({pipeline.turns, pipeline.group_size}, seconds);
    if (fresh || seconds < least->second) {
      least->second = seconds;
      tell(pipeline, plan.prediction, tried);
    }
    if (seconds >= to_beat) continue;
    to_beat = seconds;
    best = {std::move(plan), *pipeline.step, pipeline.turns, device_list(pipeline.ranks)};
  }
  return best;
}

}  // namespace hetsynth
