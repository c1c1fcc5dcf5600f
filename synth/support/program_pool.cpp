#include "synth/support/program_pool.h"

#include <utility>

namespace hetsynth::synth {

SpmdProgram ProgramPool::scrap() {
  if (scraps_.empty()) return {};
  SpmdProgram out = std::move(scraps_.back());
  scraps_.pop_back();
  return out;
}

std::shared_ptr<const SpmdProgram> ProgramPool::keep(SpmdProgram program) {
  const auto done_with = [pool = shared_from_this()](SpmdProgram* done) {
    if (pool->scraps_.size() < most_scraps) pool->scraps_.push_back(std::move(*done));
    delete done;
  };
  return {new SpmdProgram(std::move(program)), done_with};
}

void clear(Instruction* instruction) {
  Instruction empty;
  empty.operands.swap(instruction->operands);
  empty.splits.swap(instruction->splits);
  empty.cause.swap(instruction->cause);
  empty.operands.clear(), empty.splits.clear(), empty.cause.clear();
  *instruction = std::move(empty);
}

void clear(Value* value) {
  value->name.clear();
  value->node = -1;
  value->placements.clear();
}

}  // namespace hetsynth::synth
