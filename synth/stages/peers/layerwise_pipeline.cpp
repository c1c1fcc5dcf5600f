#include "synth/stages/peers/layerwise_pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dsl/base/error.h"
#include "synth/baselines/baselines.h"
#include "synth/baselines/peers/hybrid.h"
#include "synth/baselines/peers/layers.h"
#include "synth/baselines/peers/layerwise.h"
#include "synth/stages/peers/pipeline_contest.h"

namespace hetsynth::synth {
namespace {

constexpr const char* peer_name = "Galvatron (stages)";
/// Parts of the memory that layers may hold on to: what else is in memory is not counted layer by layer.
constexpr double parts_of_memory[] = {1, 0.85, 0.7, 0.5};

class LayerwisePipelines {
 public:
  explicit LayerwisePipelines(const Cluster& cluster) : cluster_(cluster), contest_(peer_name) {
    for (const Device& device : cluster.devices)
      if (device.memory_bytes > 0 && (memory_ == 0 || device.memory_bytes < memory_)) memory_ = device.memory_bytes;
  }

  /// All meshes of a group of this many stages.
  void add(const std::shared_ptr<const TurnedStep>& step, int stages) {
    const Cluster one = first_group(cluster_, stages);
    const auto devices = int(one.devices.size());
    const bool in_turns = step->turns > 1;
    if (in_turns && step->samples_of_a_turn() < 1) return;
    if (stages > 1 && (!in_turns || step->layer_count() < stages)) return;
    if (devices == 1) {
      if (stages > 1) add_mesh(step, one, stages, {});
      return;
    }
    for (int inner = 1; inner < devices; inner *= 2)
      if (devices % inner == 0 && inner <= devices_of_host(one))
        add_mesh(step, one, stages, inner == 1 ? std::vector<int>{devices} : std::vector<int>{devices / inner, inner});
  }

  /// `why_not`: told if there is no plan, and no better reason is known.
  PeerPlan result(const std::string& why_not) && {
    contest_.refuse(why_not);
    return std::move(contest_).result();
  }

 private:
  static int devices_of_host(const Cluster& group) {
    std::map<int, int> count;
    int least = int(group.devices.size());
    for (const Device& device : group.devices) ++count[device.host];
    for (const auto& [host, devices] : count) least = std::min(least, devices);
    return least;
  }

  void add_mesh(const std::shared_ptr<const TurnedStep>& step, const Cluster& one, int stages,
                const std::vector<int>& sizes) {
    static constexpr const char* names[] = {"data", "tensor"};
    Mesh mesh = sizes.empty() ? flat_mesh(one, "data") : Mesh{};
    for (size_t axis = 0; axis < sizes.size(); ++axis) mesh.axes.push_back({names[axis], sizes[axis]});
    const Problem problem(step->analysis(int(sizes.size())), stages == 1 ? cluster_ : one, mesh);
    const AtShares even(problem, RatioRule::even);
    const std::vector<Choices>& strategies = strategies_of(*step, even, sizes, one);
    if (strategies.empty()) return;
    LayerStages layers{{}, {}, memory_};
    const int count = 1 + std::ranges::max(layers_of(*step->program));
    for (int stage = 0; stage < stages; ++stage) {
      layers.first.push_back(count * stage / stages);
      layers.under_way.push_back(stages - stage);
    }
    const LayerProgram program(even, strategies, layers);
    Choices before;
    for (const double part : parts_of_memory) {
      Choices choices = program.solve(part);
      if (choices.empty()) break;
      if (choices == before) continue;
      if (carried_out(step, even, choices, stages)) break;
      before = std::move(choices);
    }
  }

  /// Returns whether the plan fits.
  bool carried_out(const std::shared_ptr<const TurnedStep>& step, const AtShares& even, const Choices& choices,
                   int stages) {
    if (stages == 1) {
      try {
        contest_.enter(step, even.plan(choices, "Galvatron's plan"));
        return true;
      } catch (const UserError& error) {
        if (error.code() != ExitCode::infeasible) throw;
        contest_.refuse(error.diagnostic().message + ": " + error.diagnostic().found);
        return false;
      }
    }
    const SpmdProgram group = even.program(choices);
    const Pricer pricer(even.problem, group);
    const CutPoints cuts = cut_points(*step->program, group, pricer, step->positions);
    bool fits = false;
    const std::vector<double> seconds = seconds_at(*step, group, pricer);
    for (const std::optional<StageCuts>& equal :
         {balanced_cuts(step->layers, cuts, stages), balanced_ring(*step, step->layers, cuts, stages),
          balanced_cuts(seconds, cuts, stages), balanced_ring(*step, seconds, cuts, stages)}) {
      if (!equal) continue;
      const StagedStep staged = staged_step(step, cluster_, group, *equal);
      const TurnOrder order =
          one_forward_one_backward(staged.parts, step->turns, one_for_each_behind(*equal), sending_of(cluster_));
      fits = contest_.enter(staged, order) || fits;
    }
    return fits;
  }

  /// Returns what the forward and the backward pass of a turn take at each position.
  static std::vector<double> seconds_at(const TurnedStep& step, const SpmdProgram& group, const Pricer& pricer) {
    std::vector<double> out(size_t(step.positions.count), 0);
    for (const Instruction& instruction : group.instructions) {
      if (loop_of(*step.program, group, instruction) != step.positions.loop) continue;
      const NodeId node = group.values[size_t(instruction.result)].node;
      out[size_t(std::max(0, step.positions.of[size_t(node)]))] += pricer.price(instruction).seconds;
    }
    return out;
  }

  /// Searched for once a mesh: in other numbers of turns a step has the same nodes, and, unless a turn has too few
  /// samples, the same options.
  const std::vector<Choices>& strategies_of(const TurnedStep& step, const AtShares& even, const std::vector<int>& sizes,
                                            const Cluster& one) {
    const Problem& problem = even.problem;
    std::vector<size_t> shape{step.program->loops.size(), step.program->nodes.size()};
    for (const int size : sizes) shape.push_back(size_t(size));
    for (const Node& node : step.program->nodes)
      shape.insert(shape.end(), {problem.rules.options[node.id].size(), problem.rules.forms[node.id].size()});
    const auto [it, fresh] = known_.try_emplace(std::move(shape));
    std::vector<Choices>& out = it->second;
    if (!fresh) return out;
    const auto keep = [&](Choices choices) {
      if (!choices.empty()) out.push_back(std::move(choices));
    };
    if (sizes.empty()) {
      keep(replicated_choices(problem));
      return out;
    }
    const Problem flat(step.analysis(1), one, flat_mesh(one, "data"));
    for (const KeptCut cut : {KeptCut::nothing, KeptCut::states, KeptCut::all}) {
      keep(hybrid_choices(even, flat, {.tensor = false, .cut = cut}));
      if (sizes.size() > 1) keep(hybrid_choices(even, flat, {.tensor = true, .cut = cut}));
    }
    if (sizes.size() == 1) keep(even.cheapest(tensor_parallel_pins(problem)));
    return out;
  }

  const Cluster& cluster_;
  int64_t memory_ = 0;  ///< of the smallest device; 0: no limit
  PipelineContest contest_;
  std::map<std::vector<size_t>, std::vector<Choices>> known_;  ///< by mesh and number of options
};

}  // namespace

PeerPlan layerwise_pipeline(const Program& whole, const Cluster& cluster, const TriedTurns& turns) {
  LayerwisePipelines out(cluster);
  std::vector<std::shared_ptr<const TurnedStep>> all = turns.steps;
  if (turns.at_once) all.insert(all.begin(), std::make_shared<const TurnedStep>(whole, 1));
  const auto devices = int(cluster.devices.size());
  for (int stages = 1; stages <= (turns.stages ? devices : 1); stages *= 2)
    for (const std::shared_ptr<const TurnedStep>& step : all)
      if (devices % stages == 0 && !turns.stop.stopped()) out.add(step, stages);
  if (turns.stop.stopped()) return stopped_peer(peer_name);
  return std::move(out).result(all.empty() ? turns.why_none
                                           : "no strategies of its layers fit into the memory of the devices");
}

}  // namespace hetsynth::synth
