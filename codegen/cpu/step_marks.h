// Marks in the text of a step that is to be measured: before each kernel, product, collective and wait a call that says
// which instructions of the plan begin there.
//
//   hetsynth_mark(context, 12, turn);
//   compute_h(x, w, h);
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "codegen/passes/lower.h"

namespace hetsynth::codegen {

class StepMarks {
 public:
  /// `marks`: where what the marks stand for is added, by number; null: there are none. Both outlive this.
  StepMarks(const Lowered& lowered, std::vector<MarkedWork>* marks);

  /// The statement in front of a group's code; empty if there are no marks.
  std::string before(const Group& group, bool in_loop);
  /// The statement in front of work that no instruction of the plan stands for, as copies and waiting.
  std::string before(MarkedWork::Kind kind, const std::string& what, bool in_loop);

 private:
  std::string statement(MarkedWork work, bool in_loop);

  const Lowered& lowered_;
  std::vector<MarkedWork>* const marks_;
  std::vector<int> made_by_;  ///< by value of the plan: its instruction, -1 for leaves
};

extern const std::string_view mark_declaration;

}  // namespace hetsynth::codegen
