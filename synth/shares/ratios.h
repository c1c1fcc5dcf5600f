// Ratios for a fixed program along one mesh axis: what share of every dimension class each coordinate takes, by linear
// programming, then rounded to whole granules. On several axes: one after the other, the others' shares being given.
#pragma once
#include <cmath>
#include <vector>

#include "synth/mesh/device_types.h"
#include "synth/schedule/lower.h"

namespace hetsynth::synth {

/// Everything of a fixed program whose time depends on the shares; equal entries are merged.
struct CostTerm {
  double count = 0;
  bool is_operator = true;
  Work work;         ///< operator
  NodeId node = -1;  ///< conversion: an example of its tensors, and the two forms
  Form from, to;
  Opcode opcode = Opcode::slice;
  Realisation realisation = Realisation::native;
};
std::vector<CostTerm> cost_terms(const Problem& problem, const Conversions& conversions, const Choices& choices);

/// Fractions by [class][coordinate along the axis]; every class sums to 1.
using Fractions = std::vector<std::vector<double>>;

/// As device_types, of the coordinates along an axis: alike are those whose devices are, each beside the other.
DeviceTypes coordinate_types(const Problem& problem, int axis);

/// What a limit that is met costs.
struct LimitPrice {
  int device;      ///< one for all of its type
  NodeId node;     ///< at the moment in which this is computed; -1: none has begun
  double seconds;  ///< that a whole memory more would save, at that rate
};

/// How the devices' memories limit shares.
struct MemoryLimits {
  double part = 1;  ///< of every memory that may be taken
  /// What it costs to take a memory too many; infinite: no more may be taken than there is.
  double seconds_over = HUGE_VAL;
  std::vector<LimitPrice>* met = nullptr;  ///< filled in, if given
};

/// Minimises the sum of every term's maximum over devices under the devices' memories (constraints of the program's
/// liveness, added where they are violated). Classes that no term depends on get even fractions. Empty if the memories
/// cannot hold the program at any shares. `others`: of a mesh of several axes shares, of which those along the axis are
/// not read.
Fractions best_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd,
                         int axis = 0, const Shares& others = {}, const MemoryLimits& limits = {});

/// Whole granules near the fractions: largest remainder, then single granules moved between types of coordinates while
/// the terms' sum falls, no share leaving the nearest two whole numbers. Shares along the axis are those, the others
/// stay.
Shares round_fractions(const Problem& problem, const std::vector<CostTerm>& terms, const Fractions& fractions,
                       int axis = 0, Shares others = {});

/// Both, axis by axis of those given, each at the shares along the others so far. False if the memories cannot hold the
/// program; the shares along some axes may have changed then.
bool refine_shares(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd,
                   const std::vector<int>& axes, Shares* shares, const MemoryLimits& limits = {});

/// For shares at which some coordinates hold more of classes of few granules than the linear program had given them:
/// these classes keep their shares, and what they leave of each memory limits those of the others. False if the
/// memories cannot hold the program so, or the shares do not change.
bool refine_fine_shares(const Problem& problem, const std::vector<CostTerm>& terms, const SpmdProgram& spmd,
                        const std::vector<int>& axes, Shares* shares);

/// Sum of the terms in seconds.
double evaluate(const Problem& problem, const std::vector<CostTerm>& terms, const Shares& shares);

}  // namespace hetsynth::synth
