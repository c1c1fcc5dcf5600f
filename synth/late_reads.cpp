#include "synth/late_reads.h"

#include <algorithm>

#include "synth/schedule.h"

namespace hetsynth::synth {

LateReads::LateReads(const Problem& problem, const SpmdProgram& program)
    : program_(program),
      attention_(problem.cost, program),
      stored_(stored_values(problem, program, attention_)),
      made_(program.values.size(), -1) {
  const int count = int(program.instructions.size());
  std::vector<std::vector<int>> readers(program.values.size());
  for (int i = 0; i < count; ++i) {
    made_[program.instructions[i].result] = i;
    for (ValueId operand : program.instructions[i].operands) readers[operand].push_back(i);
  }
  late_.assign(size_t(count), 0);
  for (int i = count; i-- > 0;) {
    const Instruction& instruction = program.instructions[i];
    const std::vector<int>& by = readers[instruction.result];
    // What is not stored is made in its reader's loop; a conversion stands where its readers need it.
    const bool with_readers = !stored_[instruction.result] || instruction.opcode != Opcode::compute;
    late_[i] = with_readers && !by.empty()
                   ? std::all_of(by.begin(), by.end(), [&](int reader) { return late_[reader]; })
                   : problem.program[program.values[instruction.result].node].phase != Phase::forward;
  }
}

void LateReads::for_stored_operands(ValueId value, const std::function<void(ValueId)>& see) const {
  for (ValueId operand : program_.instructions[made_[value]].operands) {
    if (passing(operand))
      for_stored_operands(operand, see);
    else if (made_[operand] >= 0)
      see(operand);
  }
}

}  // namespace hetsynth::synth
