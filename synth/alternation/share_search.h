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

  /// `relaxation`: of the mesh. All must outlive this. On several axes what is no faster than the plan that those kept
  /// are to beat is not searched for.
  ShareSearch(const Problem& problem, Budget& budget, const Relaxation& relaxation, Incumbent* kept);

  /// Whatever the memory. Empty if the search was stopped before it met a plan.
  Candidate cheapest(const Conversions& conversions, const Shares& shares, Among among = Among::all);
  /// By a search of everything. Raises the bound of the best plan if that has these shares.
  Candidate cheapest_of_all(const Conversions& conversions, const Shares& shares);
  /// The same, at the shares of the best plan: only of what is cheaper.
  Candidate cheaper_than_best(const Conversions& conversions, const Shares& shares);
  /// The same, whatever the cost, to 0.25 %: where plans within memory are looked for next.
  Candidate nearly_cheapest(const Conversions& conversions, const Shares& shares);
  /// From now on only the values that the relaxation calls likely are searched, where it calls any so.
  void begin_with_likely();
  bool of_likely() const { return !likely_.values.empty(); }
  void forget_likely() { likely_.values.clear(); }

  bool small_network() const;

  /// Those that not all coordinates are alike along.
  const std::vector<int>& unequal_axes() const { return unequal_axes_; }
  /// Devices of one type share evenly.
  bool has_linear_program() const { return problem_.ratio.empty() && !unequal_axes_.empty(); }
  bool several_axes() const { return problem_.mesh.axes.size() > 1; }

 private:
  Candidate cheapest_around_relaxation(const Conversions& conversions, const Shares& shares);
  Candidate relaxation_at(const Conversions& conversions, const Shares& shares) const;
  Candidate at_least_as_cheap(Candidate known, const Conversions& conversions);
  Candidate cheapest_of_likely(const Conversions& conversions, const Shares& shares);

  const Problem& problem_;
  Budget& budget_;
  const Relaxation& relaxation_;
  Incumbent& kept_;
  const std::vector<int> unequal_axes_;
  SearchLimits limits_;
  std::shared_ptr<const LearntMessages> learnt_;  ///< by the last search of everything; none: nothing yet
  Neighbourhood likely_;                          ///< by node: values of good programs; none: not known
};

}  // namespace hetsynth::synth
