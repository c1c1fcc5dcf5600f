#include "synth/planner/scheduled_pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dsl/spmd/buckets.h"
#include "synth/memory/recompute.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/price.h"
#include "synth/stages/group_costs.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_prediction.h"

namespace hetsynth::synth {
namespace {

/// The schedule alone does not tell which of its sends a device hides. A device that can hide sends counts as hiding
/// all that fit beside its computing.
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

class Scheduling {
 public:
  explicit Scheduling(Pipeline staged)
      : out_(std::move(staged)),
        staged_(out_.program),
        problem_(out_.analysis, out_.ranks, staged_.mesh),
        sending_(sending_of(out_.ranks)) {}

  std::optional<Pipeline> run(ShortStage way, std::optional<UnfitPipeline>* unfit) {
    for (;;) {
      put_in_order();
      const int full = fullest_stage(problem_, out_.memory, out_.group_size);
      if (full < 0) {
        out_.busiest = busiest_by_prices(prices_, sending_, out_.seconds);
        return std::move(out_);
      }
      if (way == ShortStage::recomputes && make_more_again(full)) continue;
      int& turns = out_.under_way[size_t(full)];
      if (turns == 1) {
        if (unfit) keep_nearest(full, unfit);
        return std::nullopt;
      }
      --turns;
      out_.short_of_memory = true;
    }
  }

 private:
  /// Values of a stage that are worth making again, in order, and how many of them are.
  struct Again {
    std::vector<Absence> order;
    size_t count = 0;
  };

  void put_in_order() {
    std::vector<ValueId> values;
    for (const auto& [stage, again] : again_)
      for (size_t i = 0; i < again.count; ++i) values.push_back(again.order[i].value);
    out_.program = values.empty() ? staged_ : with_recomputed(problem_, staged_, values);
    if (sending_ == Sending::both_ways) out_.program = with_buckets(*out_.step, out_.program);
    prices_ = price_instructions(problem_, out_.program);
    const std::vector<PartCost> parts = part_costs(*out_.step, out_.program, prices_);
    TurnOrder taken = one_forward_one_backward(parts, out_.turns, out_.under_way, sending_);
    out_.program.schedules[0].order = std::move(taken.order);
    out_.seconds = taken.seconds + seconds_besides(*out_.step, out_.program, prices_);
    out_.memory = memory_of_stages(problem_, out_.program);
  }

  double fullness(size_t device) const { return synth::fullness(problem_, out_.memory, device); }
  size_t fullest_device(int stage) const {
    const auto first = size_t(stage) * size_t(out_.group_size);
    size_t out = first;
    for (size_t d = first; d < first + size_t(out_.group_size); ++d)
      if (fullness(d) > fullness(out)) out = d;
    return out;
  }

  /// Makes the least number of values again with which the stage fits, or all. Returns false if it makes all already.
  bool make_more_again(int stage) {
    const auto [it, fresh] = again_.try_emplace(stage);
    Again& again = it->second;
    if (fresh) again.order = recompute_order(problem_, staged_, int(fullest_device(stage)), hard_to_check_again);
    size_t too_few = again.count, enough = again.order.size();
    if (too_few == enough) return false;
    out_.short_of_memory = true;
    const auto fits_with = [&](size_t count) {
      again.count = count;
      put_in_order();
      return fullness(fullest_device(stage)) <= 1;
    };
    if (!fits_with(enough)) return true;
    while (too_few + 1 < enough) {
      const size_t middle = (too_few + enough) / 2;
      (fits_with(middle) ? enough : too_few) = middle;
    }
    again.count = enough;
    return true;
  }

  void keep_nearest(int stage, std::optional<UnfitPipeline>* nearest) const {
    const size_t d = fullest_device(stage);
    UnfitPipeline found{out_.turns, stage, out_.memory[d].device, out_.memory[d].memory_bytes,
                        memory_budget(problem_, d)};
    if (!*nearest || found.overfull() < (*nearest)->overfull()) *nearest = std::move(found);
  }

  Pipeline out_;
  const SpmdProgram staged_;  ///< makes nothing again
  const Problem problem_;
  const Sending sending_;
  std::vector<InstructionPrice> prices_;
  std::map<int, Again> again_;  ///< by stage
};

}  // namespace

std::optional<Pipeline> scheduled(Pipeline staged, ShortStage way, std::optional<UnfitPipeline>* unfit) {
  return Scheduling(std::move(staged)).run(way, unfit);
}

}  // namespace hetsynth::synth
