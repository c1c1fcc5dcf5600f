// The order in which a pipeline takes the parts of its turns.
#pragma once
#include <vector>

#include "synth/schedule/price.h"
#include "synth/stages/staged_plan.h"

namespace hetsynth::synth {

/// What a part of a turn takes.
struct PartCost {
  std::vector<int> stages;     ///< the one that computes, or those that send
  std::vector<int> receivers;  ///< stages, of what is sent
  double seconds = 0;          ///< of its slowest device
  bool sends() const { return !receivers.empty(); }
};

/// What a stage does beside sending: nothing; it computes, and sends to stages of higher and of lower numbers at once;
/// or it computes and receives.
enum class Sending : uint8_t { in_place, by_direction, both_ways };
/// Of these devices: GPUs have a stream for what goes each way.
Sending sending_of(const Cluster& cluster);

/// One cost for each part of the schedule that staged_plan gives. `prices`: of all turns.
std::vector<PartCost> part_costs(const Program& in_turns, const SpmdProgram& staged,
                                 const std::vector<InstructionPrice>& prices);

/// What runs once a step, on the device where that is longest.
double seconds_besides(const Program& in_turns, const SpmdProgram& staged, const std::vector<InstructionPrice>& prices);

/// An order, and how long it takes.
struct TurnOrder {
  std::vector<LoopSchedule::Run> order;
  double seconds = 0;
};

/// List scheduling (Graham 1969): each stage takes, as soon as it is free, the part that is ready and nearest to the
/// end of its turn, so that backward passes go before forward passes (one forward, one backward: Narayanan et al. 2019,
/// PipeDream); of turns that a stage has begun and not ended there are never more than `under_way`. Returns the order
/// in which parts begin.
TurnOrder one_forward_one_backward(const std::vector<PartCost>& parts, int64_t turns, const std::vector<int>& under_way,
                                   Sending sending);

/// The order of GPipe (Huang et al. 2019), for stages of one segment each: a stage takes the forward passes of all
/// turns before its first backward pass. The last stage, whose passes of a turn are one part, takes them together,
/// which takes no longer.
TurnOrder all_forward_then_backward(const std::vector<PartCost>& parts, int64_t turns, int stages, Sending sending);

}  // namespace hetsynth::synth
