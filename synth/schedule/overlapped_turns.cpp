#include "synth/schedule/overlapped_turns.h"

#include <algorithm>
#include <utility>

namespace hetsynth {
namespace {

InstructionPrice of_one_turn(InstructionPrice price, double turns) {
  price.seconds /= turns;
  price.bytes /= turns;
  for (double& seconds : price.device_seconds) seconds /= turns;
  for (double& flops : price.device_flops) flops /= turns;
  return price;
}

}  // namespace

OverlappedTurns overlap_turns(const Program& reference, const SpmdProgram& program,
                              const std::vector<InstructionPrice>& prices, const Unfolding& unfolding) {
  OverlappedTurns out{unroll(reference, program), {}, {}};
  std::vector<double> turns;  // by instruction of the loop
  std::vector<InstructionPrice> once;
  for (size_t i = 0; i < prices.size(); ++i) {
    const int loop = loop_of(reference, program, program.instructions[i]);
    turns.push_back(loop < 0 ? 1 : double(reference.loops[size_t(loop)].turns));
    once.push_back(of_one_turn(prices[i], turns.back()));
  }
  for (size_t i = 0; i < out.flat.program.instructions.size(); ++i) {
    const auto from = size_t(out.flat.instruction_of[i]);
    out.prices.push_back(once[from]);
    out.unfolding.order.push_back(int(i));
    // Collectives that begin together run once.
    out.unfolding.bundle_of.push_back(turns[from] > 1 ? -1 : unfolding.bundle_of[from]);
    out.unfolding.latency.push_back(unfolding.latency[from] / turns[from]);
    out.unfolding.beside.push_back(unfolding.beside[from]);
    if (!unfolding.posted.empty()) out.unfolding.posted.push_back(unfolding.posted[from]);
    if (unfolding.message_seconds.empty()) continue;
    out.unfolding.message_seconds.push_back(unfolding.message_seconds[from]);
    for (double& seconds : out.unfolding.message_seconds.back()) seconds /= turns[from];
  }
  return out;
}

}  // namespace hetsynth
