#include "synth/alternation/lagrangian_share_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "synth/memory/recompute.h"
#include "synth/network/search.h"
#include "synth/schedule/memory_budget.h"
#include "synth/shares/ratios.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

/// A tensor has a bit for each (MemoryPrice::points).
constexpr size_t most_points = 31;

class PriceFollower {
 public:
  PriceFollower(const Problem& problem, const Candidate& start, int axis, Incumbent* kept, Budget& budget)
      : problem_(problem), axis_(axis), kept_(*kept), budget_(budget), at_(start), unit_(double(start.cost)) {
    limits_ = limits_at_prices(problem, budget.stop());
  }

  double run() {
    follow();
    return thriftiest_;
  }

 private:
  void follow() {
    const double first = at_.fullest();
    double price = first_memory_price, fullest = first;
    for (int round = 0; round < most_price_rounds && !budget_.spent(); ++round) {
      const Picoseconds before = best_;
      if (!move(price)) return;
      bool fits = at_.fits();
      if (prices_.empty()) return;
      const bool other = search();
      fits = fits || (other && at_.fits());
      if (!fits && at_.fullest() <= worth_rounding_anew) fits = keep(moved_to_fit(problem_, at_, {axis_}));
      if (fits && (!other || best_ >= before)) return;
      if (double(at_.cost) > double(best_) * (1 - worth_fitting)) return;
      if (!fits) {
        fullest = std::min(fullest, at_.fullest());
        if (price >= dearest_memory_price || (round + 1 == rounds_to_help && fullest > worth_going_on * first)) return;
        price = std::min(price * price_step, dearest_memory_price);
      }
    }
  }

  /// To the shares that suit the program at hand. False if there are none.
  bool move(double price) {
    const Conversions conversions(*problem_.analysis, problem_.cost, at_.shares);
    const std::vector<CostTerm> terms = cost_terms(problem_, conversions, at_.choices);
    std::vector<LimitPrice> met;
    Shares shares = at_.shares;
    MemoryLimits limits{.seconds_over = price * to_seconds(Picoseconds(unit_)), .met = &met};
    if (!refine_shares(problem_, terms, *at_.spmd, {axis_}, &shares, limits)) return false;
    take_prices(met);
    take(candidate_at(problem_, shares, at_.choices));
    return true;
  }

  /// For a program that costs less at these shares and prices than the one at hand. False if there is hardly one.
  bool search() {
    const Conversions conversions(*problem_.analysis, problem_.cost, at_.shares);
    SearchInput input;
    input.pins = &problem_.pins;
    input.memory = memory_price();
    const Picoseconds now =
        add(at_.cost, paid_for_memory(problem_, conversions, at_.shares, input.memory, at_.choices));
    limits_.cost_to_beat = now < forbidden ? Picoseconds(double(now) * (1 - worth_another)) : forbidden;
    Solution solution = synth::search(problem_, conversions, at_.shares, input, limits_);
    budget_.searched(solution.search.expansions);
    if (solution.choices.empty() || solution.search.cost >= limits_.cost_to_beat) return false;
    take(make_candidate(problem_, conversions, at_.shares, std::move(solution.choices), solution.cost));
    return true;
  }

  void take(Candidate candidate) {
    if (!keep(candidate))
      if (auto again = recomputed_to_fit(problem_, candidate, kept_.cost_to_beat())) keep(*again);
    at_ = std::move(candidate);
  }

  /// False if it does not fit.
  bool keep(const Candidate& candidate) {
    kept_.keep(candidate);
    if (!candidate.empty()) thriftiest_ = std::min(thriftiest_, candidate.fullest());
    if (candidate.empty() || !candidate.fits()) return false;
    best_ = std::min(best_, candidate.cost);
    return true;
  }

  void take_prices(const std::vector<LimitPrice>& met) {
    const double part = prices_.empty() ? 1 : part_of_new_prices;
    for (auto& [where, price] : prices_) price *= 1 - part;
    for (const LimitPrice& limit : met)
      prices_[{limit.node, limit.device}] += part * double(to_picoseconds(limit.seconds));
    std::erase_if(prices_, [&](const auto& entry) { return entry.second < negligible_price * unit_; });
  }

  /// A device's price is shared among those like it, which are as full.
  MemoryPrice memory_price() const {
    const DeviceTypes types = coordinate_types(problem_, axis_);
    const size_t devices = problem_.cluster.devices.size();
    MemoryPrice out;
    out.by_device.assign(devices, 0);
    for (const auto& [where, price] : prices_) {
      const auto [node, device] = where;
      if (out.points.empty() || out.points.back().node != node) {
        if (out.points.size() >= most_points) break;
        out.points.push_back({node, std::vector<double>(devices, 0)});
      }
      const auto& alike = types.devices[size_t(types.type_of[size_t(device)])];
      for (int d : alike) {
        const double each = price / double(alike.size()) / double(memory_budget(problem_, size_t(d)));
        out.points.back().by_device[size_t(d)] += each;
        out.by_device[size_t(d)] += each;
      }
    }
    return out;
  }

  const Problem& problem_;
  const int axis_;
  Incumbent& kept_;
  Budget& budget_;
  SearchLimits limits_;
  Candidate at_;
  Picoseconds best_ = forbidden;  ///< of the plans that fit here
  double thriftiest_ = HUGE_VAL;
  const double unit_;  ///< picoseconds: a step
  std::map<std::pair<NodeId, int>, double>
      prices_;  ///< picoseconds for a full memory, by moment and example of devices
};

}  // namespace

Candidate moved_to_fit(const Problem& problem, const Candidate& from, const std::vector<int>& unequal_axes) {
  if (from.suited) return from;
  const std::vector<CostTerm> terms =
      cost_terms(problem, Conversions(*problem.analysis, problem.cost, from.shares), from.choices);
  const auto at = [&](const Shares& shares) {
    Candidate candidate = candidate_at(problem, shares, from.choices);
    candidate.suited = candidate.fits();
    return candidate;
  };
  std::vector<int> all_axes(problem.mesh.axes.size());
  std::iota(all_axes.begin(), all_axes.end(), 0);
  Candidate out;
  double memory = 1;
  for (int round = 0; round < most_roundings; ++round) {
    Shares shares = from.shares;
    if (!refine_shares(problem, terms, *from.spmd, unequal_axes, &shares, {.part = memory}) ||
        (!out.empty() && shares == out.shares))
      break;
    out = shares == from.shares && from.recomputed.empty() ? from : at(shares);
    if (out.fits()) break;
    if (refine_fine_shares(problem, terms, *from.spmd, all_axes, &shares))
      if (Candidate fine = at(shares); fine.fits()) return fine;
    if (out.fullest() > worth_rounding_anew) break;
    memory /= out.fullest();
  }
  return out;
}

double follow_memory_prices(const Problem& problem, const Candidate& start, int axis, Incumbent* kept, Budget& budget) {
  return PriceFollower(problem, start, axis, kept, budget).run();
}

}  // namespace hetsynth::synth
