// What a program needs of every memory at least where values are made twice: tells without writing a program that too
// few are.
#pragma once
#include <vector>

#include "synth/model/problem.h"

namespace hetsynth::synth {

/// Where a value that is made twice need not be in memory: behind the last instruction of the forward phase that reads
/// it and before the first one after the phase.
struct Absence {
  ValueId value;
  int after, before;  ///< instructions of the program without copies, both exclusive
  Picoseconds again;  ///< that making it again takes at least
};

/// Copies come where they are first read, or earlier, and what they are made from stays longer: at the instructions
/// that the program has without copies, memory holds at least what this counts.
class RecomputeFloor {
 public:
  /// `order`: values in the order in which they come to be made twice; each at most once.
  RecomputeFloor(const Problem& problem, const SpmdProgram& program, std::vector<Absence> order);

  /// With fewer of the values made twice the program does not fit; one more than there are if it does with none.
  size_t least_count() const;

 private:
  /// Devices that hold the same parts of everything under the same limit.
  struct Kind {
    double limit;
    std::vector<double> live;    ///< bytes by instruction; first before all
    std::vector<double> absent;  ///< bytes by value of `order_`
  };
  bool may_fit(const Kind& kind, size_t count) const;

  std::vector<Absence> order_;
  std::vector<Kind> kinds_;
};

}  // namespace hetsynth::synth
