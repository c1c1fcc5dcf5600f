// A plan under construction: which values there are, what each is found to hold, where an instruction has to stand.
#pragma once
#include <vector>

#include "tests/attack/rules.h"
#include "tests/attack/tables.h"

namespace hetsynth::attack {

class Draft {
 public:
  /// `plan` has its mesh and its tables.
  Draft(Random& random, const Program& reference, SpmdProgram plan, ProofCache& cache);
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  int axis_count() const { return int(plan.mesh.axes.size()); }
  const Placements& placements(ValueId v) const { return plan.values[size_t(v)].placements; }
  /// The node whose tensor a value is said to be.
  const Node& node(ValueId v) const { return reference[plan.values[size_t(v)].node]; }

  ValueId add_leaf(NodeId node, Placements placements);
  /// Adds the instruction if the rules accept it, or, as long as `wild` allows, if they do not. `word`: what a textbook
  /// says of its result. -1 if it was not added.
  ValueId try_add(Instruction instruction, const Placements& word);

  /// Values of the tensor that can be read now: not those that the loop of now fills.
  std::vector<ValueId> values_of(NodeId node) const;
  bool readable(ValueId v) const;

  /// From now on instructions are of this loop; -1: of none. Ends the loop before.
  void enter(int loop);
  int loop() const { return loop_; }

  /// A table of the axis that divides the extent; -1 if there is none.
  int any_table(int axis, int64_t extent);

  Random& random;
  const Program& reference;
  SpmdProgram plan;
  Rules rules;
  int wild = 0;  ///< instructions that may still be added against the rules
  int wild_added = 0;
  ValueId latest_wild = -1;

 private:
  ValueId add_value(NodeId node, Placements placements);
  /// Says the same thing in other words: by tables that cut alike, and at will of axes of one device.
  Placements in_other_words(const Held& found, const Placements& word);
  void insert(Instruction instruction);

  struct Span {
    int first = -1, last = -1;
  };
  std::vector<Held> held_;   ///< by value
  std::vector<Span> spans_;  ///< by loop: its instructions
  int loop_ = -1;
};

}  // namespace hetsynth::attack
