// Searches at the shares that an alternation comes to, each with what those before it have taught.
#pragma once
#include <memory>
#include <set>
#include <vector>

#include "synth/alternation/incumbent.h"
#include "synth/bounds/mesh_bound.h"
#include "synth/network/search.h"
#include "synth/shares/ratios.h"
#include "synth/support/budget.h"

namespace hetsynth::synth {

class ShareSearch {
 public:
  /// What a search at fixed shares is among.
  enum class Among { all, relaxation };
  /// Of no plan that led to the shares.
  static constexpr Picoseconds never_idle = -1;

  /// `relaxation`: of the mesh. All must outlive this. On several axes what is no faster than the plan that those kept
  /// are to beat is not searched for.
  ShareSearch(const Problem& problem, Budget& budget, const Relaxation& relaxation, KeptPlans* kept);

  /// Whatever the memory. Empty if the search was stopped before it met a plan, or in an alternation that came from a
  /// plan of cost `last`, if it is idle to go on.
  Candidate cheapest(const Conversions& conversions, const Shares& shares, Among among, Picoseconds last = never_idle);
  /// By a search of everything. Raises the bound of the best plan if that has these shares.
  Candidate cheapest_of_all(const Conversions& conversions, const Shares& shares, Picoseconds last = never_idle);
  /// The same, at the shares of the best plan: only of what is cheaper.
  Candidate cheaper_than_best(const Conversions& conversions, const Shares& shares);
  /// The same, whatever the cost, to 0.25 %: where plans within memory are looked for next.
  Candidate nearly_cheapest(const Conversions& conversions, const Shares& shares);
  /// A plan was met: to meet its program again, realised alike, is idle.
  void met(const std::vector<CostTerm>& terms, const Choices& choices) { programs_.insert(realised(terms, choices)); }

  /// What the next searches of everything are among: likely values alone, once these are known.
  bool of_likely() const { return !likely_.values.empty(); }
  void begin_with_likely();
  void forget_likely() { likely_.values.clear(); }

  /// On one axis, where a search of everything takes long: only around the relaxation.
  bool only_around_relaxation() const;
  Among worth_searching() const { return only_around_relaxation() ? Among::relaxation : Among::all; }
  /// At all shares that were met.
  bool searched_everything() const { return !only_around_relaxation() && !of_likely(); }
  bool small_network() const;

  /// Those that not all coordinates are alike along.
  const std::vector<int>& unequal_axes() const { return unequal_axes_; }
  /// Devices of one type share evenly.
  bool has_linear_program() const { return problem_.ratio.empty() && !unequal_axes_.empty(); }
  bool several_axes() const { return problem_.mesh.axes.size() > 1; }

 private:
  static std::vector<int> realised(const std::vector<CostTerm>& terms, const Choices& choices);
  bool idle(const Conversions& conversions, const Solution& found, Picoseconds last) const;
  bool learns() const;
  Candidate cheapest_around_relaxation(const Conversions& conversions, const Shares& shares);
  Candidate relaxation_at(const Conversions& conversions, const Shares& shares) const;
  Candidate at_least_as_cheap(Candidate known, const Conversions& conversions);
  Candidate cheapest_of_likely(const Conversions& conversions, const Shares& shares, Picoseconds last);
  void remember_likely(const Solution& found);

  const Problem& problem_;
  Budget& budget_;
  const Relaxation& relaxation_;
  KeptPlans& kept_;
  const std::vector<int> unequal_axes_;
  SearchLimits limits_;
  std::set<std::vector<int>> programs_;           ///< as `realised` tells them
  std::shared_ptr<const LearntMessages> learnt_;  ///< by the last search of everything; none: nothing yet
  Neighbourhood likely_;                          ///< by node: values of good programs at some shares; none: not known
};

}  // namespace hetsynth::synth
