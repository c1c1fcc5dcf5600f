// A plan under consideration: shares, choices, and what they cost and take.
#pragma once
#include <memory>

#include "dsl/spmd/spmd.h"
#include "synth/model/problem.h"

namespace hetsynth::synth {

struct Candidate {
  Shares shares;
  Choices choices;
  Picoseconds cost = forbidden;     ///< of time
  Picoseconds bound = 0;            ///< proven for plans at these shares
  std::vector<ValueId> recomputed;  ///< values of the choices' program that are made twice (synth/memory/recompute.h)
  std::shared_ptr<const SpmdProgram> spmd;  ///< without names and causes
  std::vector<double> fullness;             ///< by device: peak memory as a multiple of its limit; 0 without a limit
  bool suited = false;                      ///< at the shares that moved_to_fit finds for its program
  NodeId peak = -1;                         ///< what is being computed when the fullest device is fullest
  bool empty() const { return choices.empty(); }
  double fullest() const;
  bool fits() const { return fullest() <= 1; }
};

/// The choices as a program, with its memory. `cost`: of their time.
Candidate make_candidate(const Problem& problem, const Conversions& conversions, const Shares& shares, Choices choices,
                         Picoseconds cost);

/// The same at any shares, with what the choices cost there.
Candidate candidate_at(const Problem& problem, const Shares& shares, Choices choices);

/// Sets fullness and peak from the program.
void measure_memory(const Problem& problem, Candidate* candidate);

/// A plan that fits beats one that does not; then the cheaper one, or the one that is nearer to fitting.
bool better(const Candidate& a, const Candidate& b);

}  // namespace hetsynth::synth
