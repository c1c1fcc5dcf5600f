// Shares at which the cheapest plan does not fit into memory: what fits there, and at shares near by.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "synth/kept_plans.h"
#include "synth/memory_search.h"

namespace hetsynth::synth {

class TightShares {
 public:
  /// The cheapest plan at some shares, whatever its memory; empty if the search was stopped.
  using Cheapest = std::function<Candidate(const Conversions& conversions, const Shares& shares)>;

  /// `seen`: shares that were searched. `axes`: those that shares are looked for along by linear programming; none:
  /// shares are given.
  TightShares(const Problem& problem, Budget& budget, KeptPlans* kept, std::set<Shares>* seen, std::vector<int> axes,
              Cheapest cheapest)
      : problem_(problem),
        budget_(budget),
        kept_(*kept),
        seen_(*seen),
        axes_(std::move(axes)),
        cheapest_(std::move(cheapest)) {}

  /// A plan that does not fit: to be followed.
  void add(const Candidate& candidate) { starts_.push_back(candidate); }
  /// What the fastest of them costs; `forbidden` if there are none.
  Picoseconds least() const;
  /// Whether one of them is faster than the best plan, so that one between may fit.
  bool faster() const;
  /// Looks for plans that fit from those added, the fastest first, and forgets them. `of_all`: they are the cheapest of
  /// all at their shares, not of likely values only.
  void follow(bool of_all);
  /// Of what fits or not, the cost of the cheapest at shares that were searched within memory; none: they were not.
  const Picoseconds* cheapest_at(const Shares& shares) const;

 private:
  bool move(const Candidate& from, double multiplier, double estimate_to_beat = double(forbidden));
  Candidate moved_to_fit(const Candidate& from) const;
  MemorySearchResult search_at(const Conversions& conversions, const Candidate& start, double guess,
                               double estimate_to_beat);

  const Problem& problem_;
  Budget& budget_;
  KeptPlans& kept_;
  std::set<Shares>& seen_;
  const std::vector<int> axes_;
  const Cheapest cheapest_;
  std::vector<Candidate> starts_;
  std::map<Shares, Picoseconds> searched_;
};

}  // namespace hetsynth::synth
