// Where joint tables would grow too large: message passing bounds what values must cost, and little is left to search.
#pragma once
#include <algorithm>
#include <memory>

#include "synth/support/parameters.h"
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
  /// `rounds`: from how far layers are told apart.
  BoundedSearch(const Network& network, const SearchLimits& limits, int rounds);
  bool step();
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
  bool deep() const { return network_.variable_count() > variables_of_deep_network; }
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
  bool informed_ = false;                         ///< message passing began with what was learnt in another network
  int guesses_if_stuck_ = most_guesses_if_stuck;  ///< that are left
  int guesses_in_vain_ = 0;
  bool narrowed_ = false;  ///< the rest was left to a search of a part
  SearchResult result_;
};

}  // namespace hetsynth::synth
