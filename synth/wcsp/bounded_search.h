// Where joint tables would grow too large: message passing bounds what values must cost, and little is left to search.
#pragma once
#include <algorithm>
#include <memory>

#include "synth/wcsp/astar.h"
#include "synth/wcsp/contract.h"
#include "synth/wcsp/reparametrise.h"

namespace hetsynth::synth {

/// Step 2 of `solve_wcsp`. The network must outlive this.
class BoundedSearch {
 public:
  BoundedSearch(const Network& network, const SearchLimits& limits) : BoundedSearch(network, limits, first_rounds) {}

  /// Begins with what was learnt in another network, by the names of values in this one: also what differs there
  /// between variables that look alike.
  BoundedSearch(const Network& network, const SearchLimits& limits, const LearntMessages& known,
                const NamedValues& names);
  LearntMessages learnt(const NamedValues& names) const;
  /// The bound after so many sweeps of message passing.
  Picoseconds bound_after(int sweeps);
  /// The rest. Solutions that cost as much or more are not looked for.
  SearchResult finish(Picoseconds cost_to_beat);
  /// By variable: the values in which the best solution and others that are nearly as good are found.
  ValueLists likely_values(double part) const;

 private:
  static constexpr int first_rounds = 8, more_rounds = 2;
  static constexpr int sweeps_at_once = 30, sweeps_if_informed = 9;
  /// After this many sweeps a small gap is left as it is: the last of it can take many times as long.
  static constexpr int patient_sweeps = 200;
  static constexpr double late_tolerance = 2e-4;
  /// Relative to the bound: gains of a round of sweeps, and the gap above which a better solution is looked for.
  static constexpr double worth_refining = 1e-3, least_gain = 1e-7, worth_guessing = 5e-3;
  /// While the bound still gains so much in a round of sweeps, a better solution would not help.
  static constexpr double soon_gained = 1e-2;
  /// A bound that gains less than this part of the gap is stuck, which matters while the gap is so large. Solutions are
  /// then looked for a few times.
  static constexpr double gained_of_gap_if_stuck = 0.1, worth_guessing_if_stuck = 2e-4;
  static constexpr int most_guesses_if_stuck = 3;
  /// In a row: the same messages lead to the same solutions.
  static constexpr int most_guesses_in_vain = 3;
  /// Where the gap is so large, and a round of sweeps gains less than this part of it, everything is eliminated if its
  /// joint tables are not too large: none larger than this.
  static constexpr double worth_eliminating = 2e-2, gained_of_gap_if_slow = 0.2, most_entries_at_once = 2e7;
  /// Nor is it time to narrow while it gains as much as this part of the gap.
  static constexpr double gained_of_gap = 0.5;
  /// Unless hardly anything is left by it, where message passing began with what is known: elsewhere the bound still
  /// rises, at first slowly.
  static constexpr double nearly_closed = 5e-4;
  /// With a larger gap hardly any value is out of the question.
  static constexpr double worth_pruning = 3e-2;
  /// Message passing begins anew where less than this part of the values is left.
  static constexpr double worth_narrowing = 0.7;
  /// The same in deep networks with more values than this by variable: what the messages know is lost by it, and much
  /// is left to do.
  static constexpr double worth_narrowing_deep = 0.4;
  static constexpr int64_t many_by_variable = 20;
  /// Networks with more are deep.
  static constexpr int many_variables = 4000;
  /// Where a good solution will do, layers are not told apart from farther off in what was hardly narrowed.
  static constexpr int most_rounds = 32;

  /// `rounds`: from how far layers are told apart.
  BoundedSearch(const Network& network, const SearchLimits& limits, int rounds);
  bool step();
  bool eliminate();
  void refine();
  Picoseconds to_beat() const { return std::min(result_.cost, limits_.cost_to_beat); }
  /// Nothing is better than the best so far, but for the tolerance.
  bool proven() const;
  bool done() const;
  double gap() const;
  void shift();
  void take_decoded();
  void take(Picoseconds cost, std::vector<int> assignment);
  void guess();
  void adopt(const SearchResult& found, const NumberedLists& values, const Contraction& part, Picoseconds moved);
  NumberedLists values_left(Picoseconds budget) const;
  void attempt(bool last);
  bool deep() const { return network_.variable_count() > many_variables; }
  /// Whether narrowing forgets what the messages know.
  bool forgets() const { return deep() || !limits_.thorough; }
  Network part_of(const NumberedLists& values, Picoseconds* moved) const;
  void absorb(const SearchResult& found, const NumberedLists& values, const Contraction& part, Picoseconds moved);
  void search_what_is_left();
  void prove(Picoseconds excess);

  const Network& network_;
  SearchLimits limits_;
  int rounds_;
  std::unique_ptr<Quotient> quotient_;
  std::unique_ptr<Reparametrisation> messages_;
  Reparametrised shifted_;
  int sweeps_ = 0;
  bool patient_ = true;
  bool informed_ = false;                         ///< message passing began with what was learnt in another network
  int guesses_if_stuck_ = most_guesses_if_stuck;  ///< that are left
  int guesses_in_vain_ = 0;
  bool looked_at_order_ = false;
  bool narrowed_ = false;  ///< the rest was left to a search of a part
  SearchResult result_;
};

}  // namespace hetsynth::synth
