#include "synth/schedule/overlapped_turns.h"

#include <algorithm>
#include <utility>

namespace hetsynth {

CostOfOneTurn cost_of_one_turn(const Program& reference, const SpmdProgram& program,
                               std::vector<InstructionPrice> prices, Unfolding unfolding) {
  CostOfOneTurn out{std::move(prices), std::move(unfolding)};
  out.unfolding.begun_in_order = false;
  for (size_t i = 0; i < out.prices.size(); ++i) {
    const int loop = loop_of(reference, program, program.instructions[i]);
    const double turns = loop < 0 ? 1 : double(reference.loops[size_t(loop)].turns);
    InstructionPrice& price = out.prices[i];
    price.seconds /= turns;
    price.bytes /= turns;
    for (double& seconds : price.device_seconds) seconds /= turns;
    for (double& flops : price.device_flops) flops /= turns;
    out.unfolding.latency[i] /= turns;
    // Collectives that begin together run once.
    if (turns > 1) out.unfolding.bundle_of[i] = -1;
    if (out.unfolding.message_seconds.empty()) continue;
    for (double& seconds : out.unfolding.message_seconds[i]) seconds /= turns;
  }
  return out;
}

OverlappedTurns overlap_turns(const Program& reference, const SpmdProgram& program,
                              const std::vector<InstructionPrice>& prices, const Unfolding& unfolding) {
  OverlappedTurns out{unroll(reference, program), {}, {}};
  const CostOfOneTurn once = cost_of_one_turn(reference, program, prices, unfolding);
  for (size_t i = 0; i < out.flat.program.instructions.size(); ++i) {
    const auto from = size_t(out.flat.instruction_of[i]);
    out.prices.push_back(once.prices[from]);
    out.unfolding.order.push_back(int(i));
    out.unfolding.bundle_of.push_back(once.unfolding.bundle_of[from]);
    out.unfolding.latency.push_back(once.unfolding.latency[from]);
    out.unfolding.beside.push_back(once.unfolding.beside[from]);
    if (!unfolding.posted.empty()) out.unfolding.posted.push_back(once.unfolding.posted[from]);
    if (unfolding.message_seconds.empty()) continue;
    out.unfolding.message_seconds.push_back(once.unfolding.message_seconds[from]);
  }
  return out;
}

}  // namespace hetsynth
