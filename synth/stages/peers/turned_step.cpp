#include "synth/stages/peers/turned_step.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "dsl/transform/turns.h"
#include "synth/baselines/peers/layers.h"
#include "synth/mesh/device_subsets.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// Of a stage: how far beside its place a cut may lie.
constexpr double beside_place = 0.25;

std::vector<double> layers_at(const Program& program, const StagePositions& positions) {
  std::vector<double> out(size_t(positions.count), 0);
  for (const Node& node : program.nodes) {
    const auto n = size_t(node.id);
    if (node.loop != positions.loop || positions.again[n] || positions.of[n] < 0) continue;
    if (is_parameter_product(program, node)) out[size_t(positions.of[n])] = 1;
  }
  return out;
}

}  // namespace

TurnedStep::TurnedStep(Program step, int64_t turns)
    : program(std::make_shared<const Program>(std::move(step))),
      turns(turns),
      positions(stage_positions(*program)),
      layers(layers_at(*program, positions)) {}

int TurnedStep::layer_count() const { return int(std::accumulate(layers.begin(), layers.end(), 0.0)); }

int64_t TurnedStep::samples_of_a_turn() const {
  for (const Node& node : program->nodes)
    if (node.kind == NodeKind::input) return sample_count(node) / turns;
  return 0;
}

std::shared_ptr<const Analysis> TurnedStep::analysis(int axes) const {
  std::shared_ptr<const Analysis>& known = analyses_[axes];
  if (!known)
    known = axes == 0 ? Analysis::of_one_device(*analysis(1)) : std::make_shared<const Analysis>(*program, axes);
  return known;
}

std::shared_ptr<const TurnedStep> turned_step(const Program& whole, int64_t turns) {
  Turns taken = take_turns(whole, {turns});
  if (!taken.program) return nullptr;
  auto step = std::make_shared<const TurnedStep>(std::move(*taken.program), turns);
  return step->positions.loop < 0 ? nullptr : step;
}

bool usual_turns(int64_t turns, int stages) {
  return turns <= most_pipelined_turns && (std::has_single_bit(uint64_t(turns)) || turns % stages == 0);
}

Cluster first_group(const Cluster& cluster, int stages) {
  std::vector<int> devices(cluster.devices.size() / size_t(stages));
  std::iota(devices.begin(), devices.end(), 0);
  return without_memory_limits(restricted(cluster, devices));
}

std::optional<StageCuts> balanced_cuts(const std::vector<double>& weights, const CutPoints& cuts, int stages) {
  std::vector<double> before(weights.size() + 1, 0);
  std::partial_sum(weights.begin(), weights.end(), before.begin() + 1);
  const double each = before.back() / stages;
  StageCuts out;
  size_t next = 0;  // of the cuts that are left
  for (int stage = 1; stage < stages; ++stage) {
    const auto behind = size_t(stages - 1 - stage);  // cuts that the other stages need
    if (next + behind >= cuts.at.size()) return std::nullopt;
    const auto beside = [&](size_t i) { return std::abs(before[size_t(cuts.at[i])] - each * stage); };
    const auto rank = [&](size_t i) {
      const bool near = beside(i) <= each * beside_place;
      return std::tuple(near ? 0 : 1, near ? cuts.bytes[i] : 0, beside(i));
    };
    size_t best = next;
    for (size_t i = next; i + behind < cuts.at.size(); ++i)
      if (rank(i) < rank(best)) best = i;
    out.ends.push_back(cuts.at[best]);
    next = best + 1;
  }
  out.ends.push_back(int(weights.size()));
  out.stage.resize(size_t(stages));
  std::iota(out.stage.begin(), out.stage.end(), 0);
  return out;
}

std::optional<StageCuts> balanced_ring(const TurnedStep& step, std::vector<double> weights, const CutPoints& cuts,
                                       int stages) {
  const auto behind = std::ranges::upper_bound(cuts.at, shared_parameters(*step.program, step.positions).with);
  if (behind == cuts.at.begin()) return std::nullopt;
  const auto last = size_t(behind - cuts.at.begin()) - 1;
  const auto rest = weights.begin() + cuts.at[last];
  weights[0] += std::accumulate(rest, weights.end(), 0.0);
  weights.erase(weights.begin() + cuts.at[last], weights.end());
  const CutPoints before{{cuts.at.begin(), cuts.at.begin() + long(last)},
                         {cuts.bytes.begin(), cuts.bytes.begin() + long(last)},
                         {cuts.bytes_back.begin(), cuts.bytes_back.begin() + long(last)}};
  std::optional<StageCuts> out = balanced_cuts(weights, before, stages);
  if (!out) return std::nullopt;
  out->ends.push_back(step.positions.count);
  out->stage.push_back(0);
  return out;
}

std::vector<int> one_for_each_behind(const StageCuts& cuts) {
  std::vector<int> out(size_t(cuts.stages()), 0);
  for (int segment = cuts.segments(); segment-- > 0;)
    out[size_t(cuts.stage[size_t(segment)])] = cuts.segments() - segment;
  return out;
}

}  // namespace hetsynth::synth
