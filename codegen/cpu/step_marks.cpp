#include "codegen/cpu/step_marks.h"

#include <fmt/format.h>

#include <utility>

namespace hetsynth::codegen {

const std::string_view mark_declaration =
    R"(// The time is noted at which a piece of the step begins, by its number and the turn of the loop around it.
extern "C" void hetsynth_mark(HetsynthContext* context, int work, long turn);
)";

StepMarks::StepMarks(const Lowered& lowered, std::vector<MarkedWork>* marks) : lowered_(lowered), marks_(marks) {
  if (!marks_) return;
  const SpmdProgram& program = *lowered.program;
  made_by_.assign(program.values.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) made_by_[size_t(program.instructions[i].result)] = int(i);
}

std::string StepMarks::before(const Group& group, bool in_loop) {
  if (!marks_) return "";
  MarkedWork work;
  if (group.kind == Group::Kind::collective) work.kind = MarkedWork::Kind::communicates;
  for (const Member& member : group.members) {
    const ValueId result = lowered_.op(member).result;
    // Copies into one piece are nothing that the plan has.
    if (size_t(result) >= made_by_.size()) continue;
    const int made_by = made_by_[size_t(result)];
    const Instruction& instruction = lowered_.program->instructions[size_t(made_by)];
    // What a loop hands on begins in front of it: that is its first turn's.
    const bool begins = !in_loop && loop_of(*lowered_.reference, *lowered_.program, instruction) >= 0;
    work.parts.push_back({made_by, begins ? 0 : -1});
  }
  if (work.parts.empty()) work.what = "copies " + lowered_.names[size_t(lowered_.op(group.members.front()).result)];
  return statement(std::move(work), in_loop);
}

std::string StepMarks::before(MarkedWork::Kind kind, const std::string& what, bool in_loop) {
  if (!marks_) return "";
  return statement({.kind = kind, .what = what}, in_loop);
}

std::string StepMarks::statement(MarkedWork work, bool in_loop) {
  work.told_by_mark = in_loop;
  marks_->push_back(std::move(work));
  return fmt::format("hetsynth_mark(context, {}, {});", marks_->size() - 1, in_loop ? "turn" : "0");
}

}  // namespace hetsynth::codegen
