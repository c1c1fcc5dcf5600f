// Shares at which the cheapest plan does not fit into memory: what fits there, and at shares near by.
#pragma once
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "synth/alternation/incumbent.h"
#include "synth/alternation/lagrangian_share_search.h"
#include "synth/alternation/share_search.h"
#include "synth/memory/memory_search.h"

namespace hetsynth::synth {

class MemoryConstrainedShares {
 public:
  /// `seen`: shares that were searched. `search`: of plans whatever their memory. All must outlive this.
  MemoryConstrainedShares(const Problem& problem, Budget& budget, Incumbent* kept, std::set<Shares>* seen,
                          ShareSearch* search)
      : problem_(problem), budget_(budget), kept_(*kept), seen_(*seen), search_(*search) {}

  /// A plan that does not fit: to be followed.
  void add(const Candidate& candidate) { starts_.push_back(candidate); }
  /// What the fastest of them costs; `forbidden` if there are none.
  Picoseconds least() const;
  /// Whether one of them is faster than the best plan, so that one between may fit.
  bool faster() const;
  /// Looks for plans that fit from those added, the fastest first, and forgets them. `of_all`: they are the cheapest of
  /// all at their shares, not of likely values only.
  void follow(bool of_all);
  /// Looks for what fits from the fastest program at the shares that suit it: with values made twice, at shares at
  /// which it fits as it is, and, where that is far from as fast, from a plan that may be thriftier by prices on
  /// memory. False if what was found takes many times as long, if anything was.
  bool settle(const Candidate& fastest, const Candidate& thriftier);
  /// Of what fits or not, the cost of the cheapest at shares that were searched within memory; none: they were not.
  const Picoseconds* cheapest_at(const Shares& shares) const;

 private:
  void make_again(const Candidate& candidate);
  bool try_again_at(const Shares& shares);
  void follow_best();
  bool move_best();
  void search_at_best();
  bool move(const Candidate& from);
  Candidate moved(const Candidate& from) const {
    return problem_.ratio.empty() ? moved_to_fit(problem_, from, search_.unequal_axes()) : Candidate{};
  }
  MemorySearchResult search_at(const Conversions& conversions, const Candidate& start);

  const Problem& problem_;
  Budget& budget_;
  Incumbent& kept_;
  std::set<Shares>& seen_;
  ShareSearch& search_;
  std::vector<Candidate> starts_;
  std::map<Shares, Picoseconds> searched_;
};

}  // namespace hetsynth::synth
