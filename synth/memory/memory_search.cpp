#include "synth/memory/memory_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "synth/memory/memory_bound.h"
#include "synth/memory/plan_mixture.h"
#include "synth/memory/recompute.h"
#include "synth/schedule/memory_budget.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

class MemorySearch {
 public:
  MemorySearch(const Problem& problem, const Conversions& conversions, const Candidate& cheapest, const Candidate& best,
               Picoseconds cost_to_beat, Budget& budget)
      : problem_(problem),
        conversions_(conversions),
        cheapest_(cheapest),
        cost_to_beat_(cost_to_beat),
        budget_(budget),
        bound_(problem, conversions, cheapest.shares, limits_, budget) {
    if (problem.mesh.axes.size() > 1 && !budget.patient()) near_enough_ = near_enough_if_large;
    limits_ = limits_at_prices(problem, budget.stop());
    fast_ = cheapest;
    result_.best = best;
    if (best.fits() && best.recomputed.empty()) thrifty_ = best;
    if (best.fits()) known_ = {double(best.cost), 0, 0, best.fullest(), true};
    result_.bound = cheapest.bound;
    // On one axis it may be the cheapest of likely values: there is hardly a cheaper one.
    least_ = problem.mesh.axes.size() < 2 ? cheapest.cost : cheapest.bound;
    for (double fullness : cheapest.fullness) tight_.push_back(fullness > 1);
    watch(cheapest.peak);
    make_again(cheapest);
  }

  MemorySearchResult run() {
    search();
    prove_for_copies();
    result_.beaten = hopeless() || least() >= double(cost_to_beat_);
    return std::move(result_);
  }

 private:
  /// What a search at some price led to.
  struct Point {
    double time = 0, fullness = 0, price = -1;
    double fullest = 0;  ///< of the fullest device
    bool fits = false;
    bool searched() const { return price >= 0; }
  };

  void search() {
    if (enough()) return;
    double unit = double(cheapest_.cost);
    Point low{double(cheapest_.cost), fullness_of(cheapest_), 0};
    Point high;
    if (known_.fits) {
      known_.fullness = fullness_of(result_.best);
      between(low, known_);
      return;
    }
    high = try_price(first_memory_price * unit);
    if (hopeless()) return;
    if (!high.fits) {
      if (high.searched()) low = high;
      high = try_dearest(unit);
    }
    if (high.fits) between(low, high);
  }

  /// From a plan that does not fit and one that does.
  void between(const Point& low, const Point& high) {
    const double price = approach(low, high);
    if (hopeless()) return;
    if (price > 0) mix();
    prove(price);
  }

  /// Where plans' memory peaks: tensors have a price at these moments, at all alike. After the first of a phase only
  /// where `also_beside`.
  void watch(NodeId peak, bool also_beside = false) {
    if (peak < 0 || points_.size() >= most_priced_moments) return;
    auto phase = [&](NodeId node) { return problem_.program[node].phase; };
    for (NodeId point : points_)
      if (point == peak || (!also_beside && phase(point) == phase(peak))) return;
    points_.push_back(peak);
  }

  Picoseconds to_beat() const { return std::min(cost_to_beat_, result_.best.fits() ? result_.best.cost : forbidden); }

  /// All that fit here and make every value once are slower than a plan from elsewhere, or one that makes some twice,
  /// as far as prices tell.
  bool hopeless() const { return estimate_ >= worth_having(); }

  /// What a plan that makes every value once must cost less than to be looked for.
  double worth_having() const {
    const Picoseconds beaten = result_.best.recomputed.empty() ? cost_to_beat_ : to_beat();
    return beaten < forbidden ? double(beaten) * (1 - near_enough_) : double(forbidden);
  }

  /// What plans that fit cost at least, as far as is known.
  double least() const { return double(std::max(result_.bound, least_)); }

  bool enough() const { return budget_.spent() || least() * (1 + near_enough_) >= double(to_beat()); }

  /// Average over the devices whose memory has a price.
  double fullness_of(const Candidate& candidate) const {
    double sum = 0, count = 0;
    for (size_t d = 0; d < tight_.size(); ++d)
      if (tight_[d]) sum += candidate.fullness[d], ++count;
    return count > 0 ? sum / count : 0;
  }

  SearchInput priced_input(double multiplier, bool least = false) const {
    SearchInput input;
    input.pins = &problem_.pins;
    input.memory.least = least;
    input.memory.again = least && problem_.recompute;
    double count = double(std::count(tight_.begin(), tight_.end(), 1));
    for (size_t d = 0; d < tight_.size(); ++d)
      input.memory.by_device.push_back(tight_[d] ? multiplier / count / double(memory_budget(problem_, d)) : 0);
    std::vector<double> at_point = input.memory.by_device;
    for (double& price : at_point) price /= double(points_.size());
    for (NodeId point : points_) input.memory.points.push_back({point, at_point});
    return input;
  }

  Point try_price(double multiplier) {
    Point point;
    if (budget_.spent()) return point;
    SearchInput input = priced_input(multiplier);
    // What is worth having and fits pays no more than that and a full memory.
    const double enough = std::min(worth_having() + multiplier, double(forbidden));
    limits_.cost_to_beat = cutoff_for_tolerance(Picoseconds(enough), limits_.tolerance);
    Solution solution = synth::search(problem_, conversions_, cheapest_.shares, input, limits_);
    budget_.searched(solution.search.expansions);
    if (!budget_.spent()) estimate_ = std::max(estimate_, double(solution.search.lower_bound) - multiplier);
    if (solution.choices.empty()) return point;
    Candidate candidate =
        make_candidate(problem_, conversions_, cheapest_.shares, std::move(solution.choices), solution.cost);
    candidate.bound = cheapest_.bound;
    for (size_t d = 0; d < tight_.size(); ++d) tight_[d] = tight_[d] || candidate.fullness[d] > 1;
    if (!candidate.fits()) watch(candidate.peak, multiplier >= dearest_memory_price * double(cheapest_.cost));
    point = {double(candidate.cost), fullness_of(candidate), multiplier, candidate.fullest(), candidate.fits()};
    bound_.limit_by(candidate.choices);
    if (!candidate.fits() && !same_program(candidate, cheapest_)) make_again(candidate);
    (candidate.fits() ? thrifty_ : fast_) = candidate;
    keep(std::move(candidate));
    return point;
  }

  /// Where the thriftiest plan is over at a moment or on a device that memory had no price at, it gets one there.
  Point try_dearest(double unit) {
    Point point;
    double fullest = HUGE_VAL;
    for (int round = 0; round < most_dearest; ++round) {
      const auto tight = tight_;
      const size_t points = points_.size();
      point = try_price(dearest_memory_price * unit);
      const bool same = tight == tight_ && points == points_.size();
      if (point.fits || !point.searched() || same || point.fullest > worth_dearer * fullest) break;
      fullest = point.fullest;
    }
    return point;
  }

  void keep(Candidate candidate) {
    if (!better(candidate, result_.best)) return;
    result_.best = std::move(candidate);
    if (result_.best.fits()) budget_.found(to_seconds(result_.best.cost), to_seconds(result_.bound));
  }

  /// A plan that does not fit may do so when it makes some values twice.
  void make_again(const Candidate& candidate) {
    const Picoseconds best = result_.best.fits() ? result_.best.cost : forbidden;
    if (auto again = recomputed_to_fit(problem_, candidate, std::min(cost_to_beat_, best))) keep(*std::move(again));
  }

  static bool same_program(const Candidate& a, const Candidate& b) { return a.cost == b.cost && *a.spmd == *b.spmd; }

  /// With micro-batches there is no one moment between forward phase and backward phase.
  bool forward_comes_in_turns() const {
    bool backward = false;
    for (const Node& node : problem_.program.nodes) {
      if (node.leaf()) continue;
      if (node.phase == Phase::forward && backward) return true;
      backward = backward || node.phase != Phase::forward;
    }
    return false;
  }

  /// A bound from what memory is taken for certain.
  void prove(double price) {
    if (price <= 0 || enough() || forward_comes_in_turns()) return;
    if (std::abs(price - proven_at_) < worth_proving_anew * price) return;
    const Picoseconds bound = bound_.at(priced_input(price, true), price, least());
    result_.bound = std::max(result_.bound, bound);
    proven_at_ = price;
  }

  /// Of a plan that makes values twice prices have told nothing. What it pays for a byte less grows from byte to byte:
  /// the last one costs a quarter more than the average.
  void prove_for_copies() {
    if (!result_.best.fits() || result_.best.recomputed.empty() || result_.best.cost >= cost_to_beat_) return;
    if (double(result_.best.cost) < least() * (1 + worth_proving_copies)) return;
    const double over = fullness_of(cheapest_) - 1;
    if (over <= 0) return;
    const double average = (double(result_.best.cost) - double(cheapest_.cost)) / over;
    prove(1.25 * average);
  }

  /// That at which both cost the same; 0 if there is none.
  static double price_between(const Point& low, const Point& high) {
    if (low.fullness <= high.fullness || high.time <= low.time) return 0;
    return (high.time - low.time) / (low.fullness - high.fullness);
  }

  /// The price at which `low`, which does not fit, and `high`, which does, cost the same, until no other plan is
  /// cheaper there. 0 where that leads to no plan that is worth having.
  double approach(Point low, Point high) {
    double price = 0;
    for (int step = 0; step < most_prices && !enough() && !hopeless(); ++step) {
      const double between = price_between(low, high);
      if (between <= 0) break;
      price = between;
      Point next = try_price(price);
      if (!next.searched()) break;
      double known = low.time + price * low.fullness, reached = next.time + price * next.fullness;
      (next.fits ? high : low) = next;
      if (low.time >= double(to_beat())) return 0;  // what takes less memory takes longer still
      if (reached >= known * (1 - near_enough_within_memory / 4)) break;
    }
    return price;
  }

  /// Between the cheapest plan met that does not fit and the best that does: as many thrifty parts as are needed, by
  /// the Illinois variant of false position.
  void mix() {
    if (fast_.empty() || thrifty_.empty() || enough()) return;
    const MemoryPrice price = priced_input(double(cheapest_.cost)).memory;
    const PlanMixture mixture(problem_, conversions_, cheapest_.shares, price, fast_.choices, thrifty_.choices);
    size_t few = 0, enough_parts = mixture.count();
    double over = fast_.fullest() - 1, under = 1 - thrifty_.fullest();
    std::optional<bool> last;  // whether what was tried last fitted
    while (few + 1 < enough_parts && !budget_.spent()) {
      const size_t middle = few + between_parts(enough_parts - few, over, under);
      Choices choices = mixture.with(middle);
      const Picoseconds cost = total_cost(problem_, conversions_, cheapest_.shares, choices);
      Candidate candidate = make_candidate(problem_, conversions_, cheapest_.shares, std::move(choices), cost);
      candidate.bound = cheapest_.bound;
      const bool fits = candidate.fits();
      (fits ? enough_parts : few) = middle;
      (fits ? under : over) = std::abs(candidate.fullest() - 1);
      if (last == fits) (fits ? over : under) /= 2;
      last = fits;
      keep(std::move(candidate));
    }
  }

  /// Of so many parts, as if each saved as much: neither none nor all.
  static size_t between_parts(size_t parts, double over, double under) {
    const double part = over + under > 0 ? over / (over + under) : 0.5;
    return std::clamp<size_t>(size_t(std::ceil(double(parts) * part)), 1, parts - 1);
  }

  const Problem& problem_;
  const Conversions& conversions_;
  const Candidate& cheapest_;
  Picoseconds cost_to_beat_;
  Budget& budget_;
  SearchLimits limits_;
  double near_enough_ = near_enough_within_memory;
  Picoseconds least_ = 0;       ///< of all plans at these shares, fitting or not, as far as is known
  std::vector<char> tight_;     ///< by device: its memory has a price
  std::vector<NodeId> points_;  ///< where memory was over
  MemoryBound bound_;
  double proven_at_ = 0;      ///< price of the last bound
  double estimate_ = 0;       ///< a bound, but for what has a price without being in memory
  Point known_;               ///< from elsewhere; fits if there is one
  Candidate fast_, thrifty_;  ///< of those met last one that does not fit, and one that does
  MemorySearchResult result_;
};

}  // namespace

MemorySearchResult search_within_memory(const Problem& problem, const Conversions& conversions,
                                        const Candidate& cheapest, Picoseconds cost_to_beat, Budget& budget,
                                        const Candidate* known) {
  return MemorySearch(problem, conversions, cheapest, known ? *known : cheapest, cost_to_beat, budget).run();
}

}  // namespace hetsynth::synth
