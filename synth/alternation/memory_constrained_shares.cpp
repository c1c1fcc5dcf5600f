#include "synth/alternation/memory_constrained_shares.h"

#include <algorithm>
#include <utility>

#include "synth/alternation/lagrangian_share_search.h"
#include "synth/memory/recompute.h"
#include "synth/shares/ratios.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {

Picoseconds MemoryConstrainedShares::least() const {
  const auto it = std::ranges::min_element(starts_, {}, &Candidate::cost);
  return it == starts_.end() ? forbidden : it->cost;
}

bool MemoryConstrainedShares::faster() const { return least() < kept_.best.cost; }

const Picoseconds* MemoryConstrainedShares::cheapest_at(const Shares& shares) const {
  const auto it = searched_.find(shares);
  return it == searched_.end() ? nullptr : &it->second;
}

void MemoryConstrainedShares::follow(bool of_all) {
  std::vector<Candidate> starts = std::exchange(starts_, {});
  std::stable_sort(starts.begin(), starts.end(), [](auto& a, auto& b) { return a.cost < b.cost; });
  int searched = 0, in_vain = -1;  // before the first start
  Picoseconds last = forbidden;    // to beat, after the start before
  for (const Candidate& start : starts) {
    // The cheapest of likely values is hardly dearer than that of all.
    const Picoseconds least = of_all ? start.bound : start.cost;
    if (budget_.spent() || least >= kept_.cost_to_beat() || searched >= most_tight_shares) return;
    in_vain = kept_.cost_to_beat() < std::exchange(last, kept_.cost_to_beat()) ? 0 : in_vain + 1;
    if (in_vain >= most_in_vain && !budget_.patient()) return;
    const Conversions conversions(*problem_.analysis, problem_.cost, start.shares);
    const MemorySearchResult found = search_at(conversions, start);
    searched += found.beaten || kept_.best.fits();
    if (found.beaten && kept_.cost_to_beat() == kept_.to_beat()) continue;  // by a plan from elsewhere
    Shares at = start.shares;
    // The most thrifty program may fit at other shares.
    if (!found.best.fits()) {
      const Picoseconds before = kept_.cost_to_beat();
      if (!move(found.best) || kept_.cost_to_beat() >= before) continue;
      at = kept_.best.shares;
    }
    for (int moves = 0; moves < most_tight_moves && kept_.best.fits() && kept_.best.shares == at; ++moves) {
      if (moves > 0 && double(kept_.best.cost) <= double(kept_.best.bound) * (1 + worth_moving_again)) break;
      if (!move(kept_.best)) break;
      at = kept_.best.shares;
    }
  }
}

bool MemoryConstrainedShares::settle(const Candidate& fastest, const Candidate& thriftier) {
  const auto near = [&] { return double(kept_.cost_to_beat()) <= double(fastest.cost) * (1 + far_from_fastest); };
  make_again(fastest);
  kept_.keep(moved(fastest));
  if (!near()) {
    const double least = follow_memory_prices(problem_, thriftier, search_.unequal_axes().front(), &kept_, budget_);
    if (least > worth_more_thrift) return false;
  }
  follow_best();
  if (kept_.fits() && !budget_.spent()) search_at_best();
  return double(kept_.cost_to_beat()) <= double(fastest.cost) * (1 + very_far_from_fastest);
}

void MemoryConstrainedShares::make_again(const Candidate& candidate) {
  if (candidate.fits()) return;
  if (auto again = recomputed_to_fit(problem_, candidate, kept_.cost_to_beat())) kept_.keep(*again);
}

/// While that helps.
void MemoryConstrainedShares::follow_best() {
  for (int moves = 0; moves < most_tight_moves && kept_.fits() && !budget_.spent(); ++moves) {
    const Picoseconds before = kept_.cost_to_beat();
    if (!move_best() || kept_.cost_to_beat() >= before) return;
  }
}

/// To the shares that suit the best plan's program, what it makes twice included. False if there are none to search.
bool MemoryConstrainedShares::move_best() {
  const Candidate fitting = moved(kept_.best);
  if (fitting.empty() || !seen_.insert(fitting.shares).second) return false;
  kept_.keep(fitting);
  make_again(fitting);
  return try_again_at(fitting.shares);
}

/// The cheapest plan at the shares, and with values made twice. False if there is none.
bool MemoryConstrainedShares::try_again_at(const Shares& shares) {
  const Candidate there = search_.cheapest(Conversions(*problem_.analysis, problem_.cost, shares), shares);
  if (there.empty()) return false;
  kept_.keep(there);
  make_again(there);
  return true;
}

/// Within memory, at the shares of the best plan.
void MemoryConstrainedShares::search_at_best() {
  const Conversions conversions(*problem_.analysis, problem_.cost, kept_.best.shares);
  const Candidate there = search_.nearly_cheapest(conversions, kept_.best.shares);
  if (there.empty()) return;
  kept_.keep(there);
  if (there.fits()) return;
  const Candidate known = kept_.best;
  MemorySearchResult result = search_within_memory(problem_, conversions, there, kept_.to_beat(), budget_, &known);
  kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, result.bound));
  result.best.bound = result.bound;
  kept_.keep(result.best);
  searched_[there.shares] = there.cost;
}

/// From a plan's shares to those that linear programming finds for it, and a search there. False if there are none,
/// or nothing is tight there.
bool MemoryConstrainedShares::move(const Candidate& from) {
  Candidate fitting = moved(from);
  if (fitting.empty() || !seen_.insert(fitting.shares).second) return false;
  const Shares& shares = fitting.shares;
  const Conversions conversions(*problem_.analysis, problem_.cost, shares);
  const Candidate there = search_.cheapest(conversions, shares);
  if (there.empty()) return false;
  if (there.fits()) {
    kept_.keep(there);
    return false;
  }
  fitting.bound = there.bound;
  kept_.keep(fitting);
  make_again(fitting);
  const MemorySearchResult found = search_at(conversions, there);
  if (!found.best.fits() && !found.beaten) kept_.keep(moved(found.best));
  return true;
}

MemorySearchResult MemoryConstrainedShares::search_at(const Conversions& conversions, const Candidate& start) {
  MemorySearchResult result = search_within_memory(problem_, conversions, start, kept_.cost_to_beat(), budget_);
  result.best.bound = result.bound;
  if (kept_.best.shares == start.shares) kept_.best.bound = std::max(kept_.best.bound, result.bound);
  kept_.keep(result.best);
  searched_[start.shares] = start.cost;
  return result;
}

}  // namespace hetsynth::synth
