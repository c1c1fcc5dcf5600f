#include "synth/memory_search.h"

#include <algorithm>
#include <cmath>

#include "synth/recompute.h"

namespace hetsynth::synth {
namespace {

/// Steps' time that a full memory costs when only memory is to count. Much more would make sums overflow.
constexpr double dearest = 30;
constexpr int most_prices = 7, most_turns = 5;
/// A bound this near to the plan ends the search, and a new price that promises less than this is not tried.
constexpr double near_enough = 2e-3;
/// Of large networks on several axes, where every price takes seconds: as in synth/alternation.cpp.
constexpr double near_enough_if_large = 0.015;
/// How much the two parts' prices differ when a part of the program is made thrifty.
constexpr double tilt = 0.02;

class MemorySearch {
 public:
  MemorySearch(const Problem& problem, const Conversions& conversions, const Candidate& cheapest,
               Picoseconds cost_to_beat, Budget& budget)
      : problem_(problem),
        conversions_(conversions),
        cheapest_(cheapest),
        cost_to_beat_(cost_to_beat),
        budget_(budget) {
    if (problem.mesh.axes.size() > 1 && is_long(problem.program)) near_enough_ = near_enough_if_large;
    limits_ = limits_of(problem, budget.stop(), near_enough / 2);
    limits_.most_sweeps = 48;
    limits_.thorough = !is_long(problem.program);
    limits_.table_limit = std::min(limits_.table_limit, 1e6);
    limits_.expansion_limit = std::min<int64_t>(limits_.expansion_limit, 100'000);
    result_.best = cheapest;
    result_.bound = cheapest.bound;
    for (double fullness : cheapest.fullness) tight_.push_back(fullness > 1);
    watch(cheapest.peak);
    make_again(cheapest);
  }

  MemorySearchResult run(double guess) {
    if (enough()) return std::move(result_);
    double unit = double(cheapest_.cost);
    Point low{double(cheapest_.cost), fullness_of(cheapest_), 0};
    Point high;
    if (guess > 0) high = try_price(guess, {});
    if (!high.fits) {
      if (guess > 0 && high.searched()) low = high;
      high = try_price(dearest * unit, {});
    }
    if (!high.fits) {
      if (result_.best.fits())  // by making values twice: less thrifty plans may get there at less time
        for (double part : {0.1, 0.01})
          if (!enough()) try_price(dearest * part * unit, {});
      return std::move(result_);
    }
    double price = approach(low, high);
    if (price > 0 && !forward_comes_in_turns()) prove(price);
    if (result_.best.fits() && price > 0) divide(price);
    return std::move(result_);
  }

 private:
  /// What a search at some price led to.
  struct Point {
    double time = 0, fullness = 0, price = -1;
    double priced = 0;  ///< fullness as the network counts it; 0: not known
    bool fits = false;
    bool searched() const { return price >= 0; }
    bool like(const Point& other) const {
      const auto near = [](double a, double b) { return std::abs(a - b) <= near_enough / 4 * std::abs(b); };
      return near(time, other.time) && near(fullness, other.fullness);
    }
  };

  /// Where plans' memory peaks: tensors have a price at these moments, one for each phase in which a plan was over.
  void watch(NodeId peak) {
    if (peak < 0) return;
    auto phase = [&](NodeId node) { return problem_.program[node].phase; };
    for (const MemoryPrice::Point& point : points_)
      if (phase(point.node) == phase(peak)) return;
    points_.push_back({peak, 0});
    for (MemoryPrice::Point& point : points_) point.weight = 1.0 / double(points_.size());
  }

  Picoseconds to_beat() const { return std::min(cost_to_beat_, result_.best.fits() ? result_.best.cost : forbidden); }

  bool enough() const { return budget_.spent() || double(result_.bound) * (1 + near_enough_) >= double(to_beat()); }

  /// Average over the devices whose memory has a price.
  double fullness_of(const Candidate& candidate) const {
    double sum = 0, count = 0;
    for (size_t d = 0; d < tight_.size(); ++d)
      if (tight_[d]) sum += candidate.fullness[d], ++count;
    return count > 0 ? sum / count : 0;
  }

  SearchInput priced_input(double multiplier, MemoryPrice price) const {
    SearchInput input;
    input.pins = &problem_.pins;
    input.memory = std::move(price);
    double count = double(std::count(tight_.begin(), tight_.end(), 1));
    for (size_t d = 0; d < tight_.size(); ++d)
      input.memory.by_device.push_back(tight_[d] ? multiplier / count / double(problem_.cluster.devices[d].memory_bytes)
                                                 : 0);
    return input;
  }

  /// `known`: a solution that costs no more is there already, and need not be found.
  Point try_price(double multiplier, MemoryPrice price, double known = double(forbidden)) {
    Point point;
    if (budget_.spent()) return point;
    price.points = points_;
    SearchInput input = priced_input(multiplier, std::move(price));
    limits_.cost_to_beat = known < double(forbidden) ? Picoseconds(known) : forbidden;
    Solution solution = search(problem_, conversions_, cheapest_.shares, input, limits_);
    budget_.searched();
    if (solution.choices.empty() || double(solution.search.cost) >= known) return point;
    Candidate candidate =
        make_candidate(problem_, conversions_, cheapest_.shares, std::move(solution.choices), solution.cost);
    candidate.bound = cheapest_.bound;
    for (size_t d = 0; d < tight_.size(); ++d) tight_[d] = tight_[d] || candidate.fullness[d] > 1;
    if (!candidate.fits()) watch(candidate.peak);
    const double priced = double(solution.search.cost - candidate.cost) / multiplier;
    point = {double(candidate.cost), fullness_of(candidate), multiplier, priced, candidate.fits()};
    if (!candidate.fits()) make_again(candidate);
    keep(std::move(candidate));
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

  /// A bound from what memory is taken for certain: no plan that fits pays more than the price of a full memory.
  void prove(double price) {
    limits_.cost_to_beat = forbidden;
    for (double part : {1.0, 0.5}) {
      if (enough()) return;
      MemoryPrice least;
      least.least = true;
      PlanNetwork network =
          build_network(problem_, conversions_, cheapest_.shares, priced_input(price * part, std::move(least)));
      Picoseconds bound = minimise(network.network, limits_).lower_bound;
      budget_.searched();
      if (bound >= forbidden || bound - Picoseconds(price * part) <= result_.bound) continue;
      result_.bound = bound - Picoseconds(price * part);
      return;
    }
  }

  /// The price at which `low`, which does not fit, and `high`, which does, cost the same, until no other plan is
  /// cheaper there. 0 where that leads to no plan that is worth having.
  double approach(Point low, Point high) {
    double price = 0;
    for (int step = 0; step < most_prices && !enough(); ++step) {
      if (low.fullness <= high.fullness || high.time <= low.time) break;
      price = (high.time - low.time) / (low.fullness - high.fullness);
      double found = double(forbidden);
      if (!limits_.thorough && low.priced > 0 && high.priced > 0)
        found = std::min(low.time + price * low.priced, high.time + price * high.priced) * (1 - near_enough / 4);
      Point next = try_price(price, {}, found);
      if (!next.searched()) break;
      result_.multiplier = price;
      double known = low.time + price * low.fullness, reached = next.time + price * next.fullness;
      (next.fits ? high : low) = next;
      if (low.time >= double(to_beat())) return 0;  // what takes less memory takes longer still
      if (reached >= known * (1 - near_enough / 4)) break;
    }
    return price;
  }

  /// Bisection over the part of the program that is made thrifty.
  void divide(double price) {
    double tried = 0.5, step = 0.25;
    Point last;
    for (int turn = 0; turn < most_turns && !enough(); ++turn, step /= 2) {
      MemoryPrice divided;
      divided.turn = tried;
      divided.before_turn = 1 + tilt;
      divided.after_turn = 1 - tilt;
      const Point next = try_price(price, divided);
      tried += next.fits ? -step : step;
      if (!limits_.thorough && next.like(last)) break;  // so small a difference of prices changes nothing
      last = next;
    }
  }

  const Problem& problem_;
  const Conversions& conversions_;
  const Candidate& cheapest_;
  Picoseconds cost_to_beat_;
  Budget& budget_;
  SearchLimits limits_;
  double near_enough_ = near_enough;
  std::vector<char> tight_;  ///< by device: its memory has a price
  std::vector<MemoryPrice::Point> points_;
  MemorySearchResult result_;
};

}  // namespace

MemorySearchResult search_within_memory(const Problem& problem, const Conversions& conversions,
                                        const Candidate& cheapest, Picoseconds cost_to_beat, double guess,
                                        Budget& budget) {
  return MemorySearch(problem, conversions, cheapest, cost_to_beat, budget).run(guess);
}

}  // namespace hetsynth::synth
