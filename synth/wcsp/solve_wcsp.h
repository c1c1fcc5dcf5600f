// The cheapest assignment of a weighted constraint network, with its proof.
#pragma once
#include <memory>

#include "synth/wcsp/astar.h"
#include "synth/wcsp/learnt_messages.h"

namespace hetsynth::synth {

/// 1. Dead-end elimination (in large networks only what is impossible) and contraction.
/// 2. Where joint tables would grow too large: message passing for a bound L, first with one message for all that looks
///    alike, then telling layers apart from farther and farther off; solutions U guessed from the messages; only values
///    that can be part of a solution below U are kept. What is left is contracted, and step 2 or 3 begins anew there.
/// 3. Bucket elimination and A*. The heuristic never overestimates; it is perfect, and A* expands one state per
///    variable, unless a table still exceeds the limit.
/// When stopped early: the best assignment met, if any, and the proven bound.
SearchResult solve_wcsp(const Network& network, const SearchLimits& limits = {});

/// The same in two parts. The network must outlive this.
class Minimisation {
 public:
  /// `known`: message passing begins with what was learnt in another network, by the `names` of this one's values.
  Minimisation(const Network& network, const SearchLimits& limits, const LearntMessages* known = nullptr,
               const NamedValues& names = {});
  ~Minimisation();
  Minimisation(const Minimisation&) = delete;
  Minimisation& operator=(const Minimisation&) = delete;

  /// A bound after so many sweeps of message passing.
  Picoseconds bound_after(int sweeps);
  /// What other networks can begin with; nothing if there was no need of message passing.
  std::shared_ptr<const LearntMessages> learnt(const NamedValues& names) const;
  /// The rest. Solutions that cost as much or more than `cost_to_beat` are not looked for.
  SearchResult finish(Picoseconds cost_to_beat);
  /// By variable: values in which solutions are found that are nearly as good as the best. None if nothing is known.
  ValueLists likely_values(double part) const;

 private:
  struct State;
  Picoseconds bound_;
  std::unique_ptr<State> state_;  ///< none: stopped before it began
};

}  // namespace hetsynth::synth
