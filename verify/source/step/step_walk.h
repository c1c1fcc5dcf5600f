// The statements of hetsynth_step in their order: what following the step of a cpu rank (walk.h) and the host side of a
// cuda rank (device.h) have in common.
#pragma once
#include <string>
#include <vector>

#include "verify/source/execute/outline.h"
#include "verify/source/step/rank_source.h"
#include "verify/source/text/differs.h"

namespace hetsynth::source {

class StepWalk {
 public:
  virtual ~StepWalk() = default;

  /// Throws Differs, NotFollowed, Misstep, TooLong.
  virtual void run() = 0;

  int statements = 0, collectives = 0;

 protected:
  StepWalk(const Program& reference, const SpmdProgram& program, const RankSource& source)
      : reference_(reference), program_(program), source_(source) {}

  /// hetsynth_step of the file. Throws Differs if it is not there.
  static const Function& entry_of(const Unit& unit);
  /// From the first statement of the function to its `return 0`.
  void follow(const Function& function);
  void step(const Statement& s);

  virtual void declare(const Statement& s) = 0;
  virtual void loop(const Statement& s) = 0;
  virtual void call(const Statement& s) = 0;
  /// if (value) return 1;
  virtual void checked(const Expression& value, int line) = 0;

  const Node& node_of(ValueId value) const { return reference_[program_.values[size_t(value)].node]; }
  /// What the rank holds of the value.
  std::vector<Range> part_of(ValueId value) const {
    return local_ranges(program_, program_.values[size_t(value)].placements, node_of(value).type.shape, source_.rank);
  }
  /// A boundary table of the program in elements of a dimension.
  std::vector<int64_t> bounds(int table, int64_t extent) const {
    return bounds_in_elements(program_, table, extent, source_.rank);
  }
  /// Whether the rank holds any of the value: not what lies on another stage.
  bool on_rank(ValueId value) const {
    return holds(program_.mesh, program_.values[size_t(value)].placements, source_.rank);
  }
  /// Elements that the rank holds of the value.
  int64_t elements(ValueId value) const { return on_rank(value) ? part_elements(part_of(value)) : 0; }
  /// Whether the rank exchanges data in the instruction.
  bool exchanges(const Instruction& i) const { return communicates(i.opcode) && takes_part(program_, i, source_.rank); }
  [[noreturn]] void missing(const Instruction& i) const;

  const Program& reference_;
  const SpmdProgram& program_;
  const RankSource& source_;
  size_t next_collective_ = 0;  ///< instruction to look for the next collective from

 private:
  bool left_ = false;
};

}  // namespace hetsynth::source
