#include "synth/planner/pipelines.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "dsl/base/error.h"
#include "dsl/spmd/buckets.h"
#include "dsl/transform/turns.h"
#include "synth/baselines/baselines.h"
#include "synth/mesh/device_subsets.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/price.h"
#include "synth/stages/device_groups.h"
#include "synth/stages/group_costs.h"
#include "synth/stages/stage_positions.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_plan.h"
#include "synth/stages/staged_prediction.h"
#include "synth/support/parameters.h"

namespace hetsynth {
namespace {

using namespace synth;

/// Groups of a pipeline, and divisions that get a schedule, of each size of groups and number of turns.
constexpr size_t most_groups = 16, most_divisions = 3;
/// How much shorter than by the formula of divisions steps turn out to be, at most.
constexpr double formula_above = 0.1;
/// Where no division comes near, with so many turns, more of them hardly help.
constexpr double far_from_worth = 2;
constexpr int64_t enough_turns = 8;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// A pipeline with its schedule.
struct Pipeline {
  std::shared_ptr<const Program> step;  ///< in turns
  std::shared_ptr<const Analysis> analysis;
  int64_t turns = 1;
  int group_size = 1;
  Cluster ranks;
  SpmdProgram program;
  std::vector<DevicePrediction> memory;
  double seconds = 0;  ///< by its schedule
  BusiestDevice busiest = {};
  bool held_back = false;  ///< fewer turns are under way than would be fastest, as memory is short
  int stages() const { return stage_count(program); }
};

/// By the schedule alone it is not known what of its sends a device hides; where it can it hides all.
BusiestDevice busiest_by_prices(const std::vector<InstructionPrice>& prices, Sending sending, double step_seconds) {
  std::vector<DevicePrediction> devices(prices.empty() ? 0 : prices[0].device_seconds.size());
  for (const InstructionPrice& price : prices)
    for (size_t d = 0; d < devices.size(); ++d)
      (price.communicates() ? devices[d].communication_seconds : devices[d].compute_seconds) += price.device_seconds[d];
  for (DevicePrediction& device : devices) {
    const double room = std::max(0.0, step_seconds - device.compute_seconds);
    const double exposed = sending == Sending::in_place ? std::min(room, device.communication_seconds) : 0;
    device.hidden_seconds = device.communication_seconds - exposed;
  }
  return busiest_device(devices);
}

/// The step in so many turns.
class PipelinesAtTurns {
 public:
  PipelinesAtTurns(Program step, int64_t turns, const Cluster& cluster, const PipelineOptions& options)
      : step_(std::make_shared<const Program>(std::move(step))),
        turns_(turns),
        cluster_(cluster),
        options_(options),
        analysis_(std::make_shared<const Analysis>(*step_, 1)),
        program_(*step_),
        positions_(stage_positions(program_)) {}

  /// Returns pipelines on groups of this size that fit and may be worth it. `least` becomes what the best division
  /// takes by the formula, or infinite if that is far from worth it.
  std::vector<Pipeline> on_groups_of(int size, double* least) const {
    const DeviceGroups groups = groups_of(cluster_, size);
    const Cluster one = without_memory_limits(restricted(cluster_, groups.groups[0]));
    const auto analysis = size > 1 ? analysis_ : Analysis::of_one_device(*analysis_);
    const Problem problem(analysis, one, flat_mesh(one));
    // The devices of a group are alike.
    const AtShares even(problem, RatioRule::even);
    const SpmdProgram group = even.plan(size > 1 ? even.cheapest({}) : replicated_choices(problem), "a stage").program;
    StageProblem stages = stage_problem(analysis, cluster_, groups, group, positions_);
    stages.stages = options_.stages.value_or(0);
    stages.both_ways = sending_of(cluster_) == Sending::both_ways;
    stages.to_beat = options_.to_beat * far_from_worth;
    const double worth = options_.to_beat > 0 ? options_.to_beat * (1 + formula_above) : infinite;
    std::vector<Pipeline> out;
    *least = infinite;
    for (const StageDivision& division : divide_into_stages(stages, most_divisions)) {
      *least = std::min(*least, division.seconds);
      if (division.seconds >= worth) break;
      if (std::optional<Pipeline> made = scheduled(groups, group, division)) out.push_back(std::move(*made));
    }
    return out;
  }

 private:
  std::optional<Pipeline> scheduled(const DeviceGroups& groups, const SpmdProgram& group,
                                    const StageDivision& division) const {
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
    Pipeline out{step_, analysis_, turns_, groups.size, restricted(cluster_, devices), {}, {}, 0};
    const Sending sending = sending_of(out.ranks);
    out.program = staged_plan(program_, group, positions_, cuts);
    tell_hosts(out.ranks, &out.program);
    if (sending == Sending::both_ways) out.program = with_buckets(program_, out.program);
    const Problem problem(analysis_, out.ranks, out.program.mesh);
    const std::vector<InstructionPrice> prices = price_instructions(problem, out.program);
    const std::vector<PartCost> parts = part_costs(program_, out.program, prices);
    for (;;) {
      TurnOrder taken = one_forward_one_backward(parts, turns_, under_way, sending);
      out.program.schedules[0].order = std::move(taken.order);
      out.seconds = taken.seconds + seconds_besides(program_, out.program, prices);
      out.memory = memory_of_stages(problem, out.program);
      const int full = fullest_stage(problem, out.memory, groups.size);
      if (full < 0) {
        out.busiest = busiest_by_prices(prices, sending, out.seconds);
        return out;
      }
      if (under_way[size_t(full)] == 1) return std::nullopt;
      --under_way[size_t(full)];
      out.held_back = true;
    }
  }

  const std::shared_ptr<const Program> step_;
  const int64_t turns_;
  const Cluster& cluster_;
  const PipelineOptions& options_;
  const std::shared_ptr<const Analysis> analysis_;
  const Program& program_;
  const StagePositions positions_;
};

/// The numbers of turns that are tried: twice as many each time.
std::vector<int64_t> turns_to_try(const Program& whole, const PipelineOptions& options) {
  if (options.turns) return {*options.turns};
  std::vector<int64_t> out;
  for (const int64_t turns : possible_turns(whole))
    if (turns <= most_pipelined_turns && (out.empty() || turns >= 2 * out.back())) out.push_back(turns);
  return out;
}

/// Returns pipelines of each number of turns and size of groups. A size for which more turns were slower twice is not
/// tried with still more.
std::vector<Pipeline> pipelines(const Program& whole, const Cluster& cluster, const PipelineOptions& options,
                                std::vector<TurnTrial>* tried) {
  struct Course {
    double least = infinite;  ///< by the formula
    int slower = 0;
  };
  std::map<int, Course> courses;  // by size of groups
  for (const int size : group_sizes(cluster, most_groups)) courses[size];
  std::vector<Pipeline> out;
  for (const int64_t turns : turns_to_try(whole, options)) {
    if (std::ranges::all_of(courses, [](const auto& course) { return course.second.slower == 2; })) break;
    Turns taken = take_turns(whole, {turns});
    if (!taken.program) break;
    const PipelinesAtTurns at(std::move(*taken.program), turns, cluster, options);
    for (auto& [size, course] : courses) {
      if (course.slower == 2) continue;
      if (options.stop()) return out;
      double least = infinite;
      std::vector<Pipeline> made = at.on_groups_of(size, &least);
      if (least < course.least)
        course.slower = 0;
      else if (least < infinite || turns >= enough_turns)
        ++course.slower;
      course.least = std::min(course.least, least);
      if (const auto best = std::ranges::min_element(made, {}, &Pipeline::seconds); best != made.end())
        tried->push_back({.turns = hetsynth::text(TurnCount{turns}),
                          .stages = best->stages(),
                          .stage_devices = size,
                          .step_seconds = best->seconds,
                          .compute_seconds = best->busiest.compute_seconds,
                          .communication_seconds = best->busiest.communication_seconds,
                          .short_of_memory = best->held_back});
      std::ranges::move(made, std::back_inserter(out));
    }
  }
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
    trial.short_of_memory = pipeline.held_back;
  }
}

}  // namespace

BusiestDevice busiest_device(const std::vector<DevicePrediction>& devices) {
  const auto busiest = std::ranges::max_element(devices, {}, &DevicePrediction::busy_seconds);
  if (busiest == devices.end()) return {};
  return {busiest->compute_seconds, std::max(0.0, busiest->communication_seconds - busiest->hidden_seconds)};
}

std::optional<PipelinePlan> best_pipeline(const Program& whole, const Cluster& cluster, const PipelineOptions& options,
                                          std::vector<TurnTrial>* tried) {
  std::vector<Pipeline> found = pipelines(whole, cluster, options, tried);
  std::ranges::stable_sort(found, {}, &Pipeline::seconds);
  std::map<std::pair<int64_t, int>, double> simulated_seconds;  // the least, by turns and size of groups
  std::optional<PipelinePlan> best;
  double to_beat = options.to_beat > 0 ? options.to_beat : infinite;
  for (size_t i = 0; i < std::min(found.size(), most_simulated_pipelines) && found[i].seconds < to_beat; ++i) {
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
