#include "synth/memory/backward_liveness.h"

#include <algorithm>

#include "synth/schedule/schedule.h"

namespace hetsynth::synth {

BackwardLiveness::BackwardLiveness(const Problem& problem, const SpmdProgram& program)
    : program_(program),
      attention_(problem.cost, program),
      stored_(stored_values(problem, program, attention_)),
      made_(program.values.size(), -1) {
  const int count = int(program.instructions.size());
  for (int i = 0; i < count; ++i) made_[program.instructions[i].result] = i;
  crosses_loops_.assign(program.values.size(), 0);
  if (!problem.program.loops.empty()) find_crossing(problem);
  late_.assign(size_t(count), 0);
  std::vector<char> read(program.values.size(), 0), read_early(program.values.size(), 0);
  for (int i = count; i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    // What is not stored is made in its reader's loop; a conversion stands where its readers need it, and what goes to
    // another stage of a pipeline behind what makes it.
    const bool with_readers =
        !stored_[instruction.result] || (instruction.opcode != Opcode::compute && instruction.opcode != Opcode::send);
    late_[i] = with_readers && read[instruction.result]
                   ? !read_early[instruction.result]
                   : problem.program[program.values[instruction.result].node].phase != Phase::forward;
    for (ValueId operand : instruction.operands) {
      read[operand] = 1;
      read_early[operand] |= !late_[i];
    }
  }
}

void BackwardLiveness::find_crossing(const Problem& problem) {
  std::vector<int> loop(program_.instructions.size(), -1);
  for (const LoopSpan& span : loop_spans(problem.program, program_))
    std::fill(loop.begin() + span.first, loop.begin() + span.last, span.loop);
  for (size_t i = 0; i < loop.size(); ++i)
    for (const ValueId operand : program_.instructions[i].operands)
      if (made_[operand] >= 0 && loop[size_t(made_[operand])] != loop[i]) crosses_loops_[operand] = 1;
}

void BackwardLiveness::for_stored_operands(ValueId value, const std::function<void(ValueId)>& see) const {
  for (ValueId operand : program_.instructions[made_[value]].operands) {
    if (passing(operand))
      for_stored_operands(operand, see);
    else if (made_[operand] >= 0)
      see(operand);
  }
}

}  // namespace hetsynth::synth
