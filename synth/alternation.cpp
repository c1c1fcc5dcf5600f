#include "synth/alternation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "dsl/base/error.h"
#include "synth/baselines.h"
#include "synth/candidate.h"
#include "synth/device_work.h"
#include "synth/lower.h"
#include "synth/memory_floor.h"
#include "synth/ratios.h"
#include "synth/recompute.h"
#include "synth/share_bound.h"
#include "synth/tight_shares.h"

namespace hetsynth::synth {
namespace {

constexpr int max_alternations = 6;
/// Starts. In long programs others are followed only if the last one has led to something better, or memory is short.
constexpr int first_starts = 2;
/// One more, if the plan is so far from the bound over all shares.
constexpr double worth_one_more_start = 0.02;
/// Shares whose plan is proven to be this near to the best over all shares end the alternation.
constexpr double near_enough = 1e-3;
/// So do shares whose cheapest program does not fit and is this near: as near as plans within memory are sought.
constexpr double near_enough_if_tight = 2e-3;
/// The other starts are followed after all where the plan that fits is so far from the bound.
constexpr double worth_following_if_tight = 0.1;
/// In long programs what is left between plan and bound is not worth one more search of everything.
constexpr double as_good_as_proven = 1e-6;
/// Where the relaxation's program, at the shares that suit it, costs no more than this above the bound, the alternation
/// begins there; and what it must lead to for the next start to be left out.
constexpr double worth_beginning_there = 7e-3, near_enough_at_first = 5e-4;
/// Of long programs a bound over all shares that is this near is left as it is, and that of programs with more nodes:
/// the few searches there is time for hardly make it tighter.
constexpr double worth_tightening = 5e-3;
constexpr size_t most_nodes_to_tighten = 4500;
/// Shares at which a program fits are left for later where they make it so much slower.
constexpr double worth_moving_to_fit = 1;
/// Shares that gain a plan less than this part of what it lacks to the best do not lead there.
constexpr double worth_following = 0.1;
/// On several axes, of large networks: a search of everything would take many times as long as all before.
constexpr double near_enough_if_large = 0.015;
/// Networks with no more values are searched to the end all the same.
constexpr int64_t few_values = 60'000;
/// Of all values, where a search of everything tells which are likely to be good at other shares.
constexpr double likely_part = 0.25;

/// Those that not all coordinates are alike along.
std::vector<int> unequal_axes(const Problem& problem) {
  std::vector<int> out;
  for (int axis = 0; axis < int(problem.mesh.axes.size()); ++axis)
    if (coordinate_types(problem, axis).devices.size() > 1) out.push_back(axis);
  return out;
}

class Alternation {
 public:
  Alternation(const Problem& problem, Budget& budget, Picoseconds to_beat, std::optional<Relaxation> known,
              Candidate at_hand, size_t runners_up)
      : problem_(problem),
        budget_(budget),
        to_beat_(to_beat),
        relaxation_(std::move(known)),
        unequal_axes_(unequal_axes(problem)),
        kept_(budget, to_beat, runners_up),
        tight_(problem, budget, &kept_, &seen_, has_linear_program() ? unequal_axes_ : std::vector<int>{},
               [this](auto& conversions, auto& shares) { return cheapest(conversions, shares, worth_searching()); }),
        at_hand_(std::move(at_hand)) {
    limits_.stop = budget.stop();
  }

  std::vector<Plan> run() {
    check_memory_floor(problem_);
    if (!relaxation_) relaxation_ = MeshBound(problem_, budget_.stop()).relaxation(to_beat_);
    shares_bound_ = relaxation_->bound;
    if (!several_axes() || !small_network()) limits_ = limits_of(problem_, budget_.stop());
    if (several_axes()) limits_.cost_to_beat = to_beat_;
    budget_.searched(relaxation_->expansions);
    if (shares_bound_ >= to_beat_) return {};
    std::vector<Shares> starts;
    for (const std::vector<double>& by_device : parts_to_start_at(problem_))
      starts.push_back(common_shares(problem_.classes, axis_fractions(problem_, by_device)));
    if (several_axes() && !relaxation_->choices.empty()) starts = search_around_relaxation(std::move(starts));
    if (!several_axes() && !budget_.spent()) alternate_from_relaxation();
    const bool followed = follow(starts, /*may_leave=*/true);
    // Where memory is short the best plan is hardly at the shares of the best so far.
    const bool ample = several_axes() || memory_is_ample();
    if (ample) search_best_shares();
    search_tight_shares();
    if (!followed && far_within_memory()) {
      follow(starts, /*may_leave=*/false);
      search_tight_shares();
    }
    search_everything_at_last(ample);
    tighten_bound();
    if (budget_.spent() && !at_hand_.empty()) kept_.keep(at_hand_);
    if (!several_axes() && !problem_.constrained && (kept_.best.empty() || (budget_.spent() && !kept_.best.fits())))
      add_unsearched();
    if (kept_.best.empty()) return {};
    std::vector<Plan> plans{finish()};
    for (const Candidate& other : kept_.runners_up()) plans.push_back(assembled(other));
    return plans;
  }

 private:
  /// From one start after the other, until no more are worth it. False if the rest are left for later, as may be done
  /// once only memory matters.
  bool follow(const std::vector<Shares>& starts, bool may_leave) {
    double enough = several_axes() ? near_enough : near_enough_at_first;
    int followed = 0;
    for (const Shares& shares : starts) {
      if (budget_.spent() || (near_bound(enough) && !worth_proving())) break;
      if (may_leave && only_memory_matters()) return false;
      enough = near_enough;
      const Picoseconds before = kept_.best.cost;
      if (seen_.contains(shares)) continue;
      alternate(shares, worth_searching(), &seen_);
      const int enough_starts = first_starts + !near_bound(worth_one_more_start);
      if (++followed >= enough_starts && kept_.best.cost >= before && are_enough_starts()) break;
    }
    return true;
  }

  /// What a search at fixed shares is among.
  enum class Among { all, relaxation };

  /// At which a program fits, and what it costs there.
  struct FarShares {
    Picoseconds cost;
    Shares shares;
  };

  /// Plans near the relaxation at all shares, those first that suit its choices best, until one is hard to beat.
  /// Returns the shares worth a search of everything: of a large network only those of the best plan, if it fits.
  std::vector<Shares> search_around_relaxation(const std::vector<Shares>& starts) {
    std::vector<std::pair<Picoseconds, size_t>> by_cost;
    for (const Shares& shares : starts) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      by_cost.push_back({total_cost(problem_, conversions, shares, relaxation_->choices), by_cost.size()});
    }
    std::sort(by_cost.begin(), by_cost.end());
    std::vector<Shares> ordered;
    std::set<Shares> seen;
    for (const auto& [cost, start] : by_cost) {
      if (!budget_.spent() && !near_bound()) alternate(starts[start], Among::relaxation, &seen);
      ordered.push_back(starts[start]);
    }
    if (small_network()) return ordered;
    if (!kept_.fits() || near_bound(near_enough_if_large)) return {};
    return {kept_.best.shares};
  }

  /// What suits the shares of each instruction is changed a little to suit the shares there are.
  Candidate cheapest_around_relaxation(const Conversions& conversions, const Shares& shares) {
    Solution solution = search_among(problem_, conversions, shares, relaxation_->around, limits_);
    budget_.searched(solution.search.expansions);
    const Picoseconds cost = total_cost(problem_, conversions, shares, relaxation_->choices);
    if (solution.choices.empty() || solution.cost > cost) solution.choices = relaxation_->choices, solution.cost = cost;
    Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
    candidate.bound = shares_bound_;
    return candidate;
  }

  /// Its program, if that costs no more at these shares, as it may where all devices are alike: none is cheaper.
  Candidate relaxation_at(const Conversions& conversions, const Shares& shares) const {
    if (several_axes() || !unequal_axes_.empty() || relaxation_->choices.empty()) return {};
    const Picoseconds cost = total_cost(problem_, conversions, shares, relaxation_->choices);
    if (cost > shares_bound_) return {};
    Candidate candidate = make_candidate(problem_, conversions, shares, relaxation_->choices, cost);
    candidate.bound = shares_bound_;
    return candidate;
  }

  /// On one axis, where a search of everything takes long: only around the relaxation.
  bool only_around_relaxation() const { return !several_axes() && !relaxation_->choices.empty() && relaxation_->hard; }
  Among worth_searching() const { return only_around_relaxation() ? Among::relaxation : Among::all; }

  /// At all shares that were met.
  bool searched_everything() const { return !only_around_relaxation() && likely_.values.empty(); }

  /// Everything at the best shares, if that was not searched yet: what is faster, and what other shares that leads to.
  void search_best_shares() {
    const bool searched = searched_everything() && !(several_axes() && worth_proving());
    if (searched || !kept_.fits()) return;
    if (!several_axes() && is_long(problem_.program) && near_bound(as_good_as_proven)) return;
    Shares shares = kept_.best.shares;
    for (int round = 0; round < max_alternations && !budget_.spent() && kept_.best.bound < kept_.best.cost; ++round) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      limits_.cost_to_beat = kept_.best.cost;
      limits_.guesses = several_axes();
      Candidate candidate = cheapest_of_all(conversions, shares, kept_.best.cost);
      limits_.cost_to_beat = forbidden;
      limits_.guesses = true;
      if (candidate.empty()) return;
      const bool faster = better(candidate, kept_.best);
      kept_.keep(candidate);
      if (!candidate.fits()) tight_.add(candidate);
      if (!faster || !has_linear_program()) return;
      const std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.choices);
      if (!refine_shares(problem_, terms, *candidate.spmd, unequal_axes_, &shares) || !searched_.insert(shares).second)
        return;
    }
  }

  /// After the first ones, and one that led to nothing better: in long programs even shares and shares by speed lead to
  /// the best plan, unless memory is short.
  bool are_enough_starts() const { return !several_axes() && is_long(problem_.program) && memory_is_ample(); }

  /// The best plan fits, and none that does not is faster.
  bool memory_is_ample() const { return kept_.best.fits() && !tight_.faster(); }

  /// What does not fit at some shares is so fast that no others are much faster: what fits is searched for there.
  bool only_memory_matters() const {
    return !several_axes() && is_long(problem_.program) &&
           double(tight_.least()) <= double(shares_bound_) * (1 + near_enough_if_tight);
  }

  /// And yet what was found within memory is far from the bound there, if anything was.
  bool far_within_memory() const {
    return !kept_.fits() || double(kept_.best.cost) > double(kept_.best.bound) * (1 + worth_following_if_tight);
  }

  /// No other shares are worth a search.
  bool near_bound(double enough = near_enough) const {
    return kept_.fits() && double(kept_.best.cost) <= double(shares_bound_) * (1 + enough);
  }

  bool small_network() const {
    const auto& network = relaxation_->around.network;
    return network && network->network.value_count() <= few_values;
  }

  /// The best of the relaxation's neighbourhood may be the best of all, which a small network soon shows.
  bool worth_proving() const { return likely_.values.empty() && small_network() && kept_.best.bound < kept_.best.cost; }

  /// Branch and bound over the shares of the class that most of the plan's work is cut by. The number of searches goes
  /// by the size of the program, not by the clock: the same input has the same bound.
  void tighten_bound() {
    const int searches = int(std::min<size_t>(24, 16'000 / problem_.program.nodes.size()));
    if (several_axes() || relaxation_->hard || !kept_.fits() ||
        near_bound(is_long(problem_.program) ? worth_tightening : near_enough) ||
        problem_.program.nodes.size() > most_nodes_to_tighten || !problem_.ratio.empty() ||
        device_types(problem_.cluster).devices.size() < 2)
      return;
    const int most = class_of_most_work(problem_, *kept_.best.spmd);
    if (most < 0) return;
    shares_bound_ =
        std::max(shares_bound_, tighter_bound_over_shares(problem_, most, shares_bound_, kept_.best.cost, near_enough,
                                                          searches, budget_.stop(), relaxation_->choices,
                                                          relaxation_->learnt.get(), kept_.best.shares));
    budget_.searched();
  }

  bool several_axes() const { return problem_.mesh.axes.size() > 1; }

  /// From the shares that suit the relaxation's program, if these make it nearly as fast as the bound, among what the
  /// relaxation calls likely.
  void alternate_from_relaxation() {
    if (!has_linear_program() || relaxation_->choices.empty() || relaxation_->hard) return;
    Shares shares = common_shares(problem_.classes, axis_fractions(problem_, device_speeds(problem_)));
    const Conversions conversions(*problem_.analysis, problem_.cost, shares);
    const std::vector<CostTerm> terms = cost_terms(problem_, conversions, relaxation_->choices);
    const SpmdProgram relaxed = lower(problem_, conversions, shares, relaxation_->choices, Wording::none);
    if (!refine_shares(problem_, terms, relaxed, unequal_axes_, &shares)) return;
    const Conversions there(*problem_.analysis, problem_.cost, shares);
    const Picoseconds cost = total_cost(problem_, there, shares, relaxation_->choices);
    if (double(cost) > double(shares_bound_) * (1 + worth_beginning_there)) return;
    if (learns() && !relaxation_->around.values.empty()) {
      likely_.values = relaxation_->around.values;
      likely_.values.resize(problem_.program.nodes.size());
    }
    alternate(shares, Among::all, &seen_);
    if (!near_bound(near_enough_at_first) && !only_memory_matters()) likely_.values.clear();
  }

  /// Devices of one type share evenly.
  bool has_linear_program() const { return problem_.ratio.empty() && !unequal_axes_.empty(); }

  /// Search at fixed shares, shares by linear programming for the program found, and again, until nothing improves or
  /// the shares were seen.
  void alternate(Shares shares, Among among, std::set<Shares>* seen) {
    Candidate last;
    for (int round = 0; round < max_alternations && !budget_.spent() && seen->insert(shares).second; ++round) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      Candidate candidate = cheapest(conversions, shares, among, last.empty() ? forbidden : last.cost);
      if (candidate.empty()) return;
      const std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.choices);
      programs_.insert(realised(terms, candidate.choices));
      if (!several_axes() || candidate.cost < to_beat_) {
        kept_.keep(candidate);
        if (!candidate.fits()) tight_.add(candidate);
      }
      if (!has_linear_program() || (round > 0 && !better(candidate, last)) || (several_axes() && near_bound())) return;
      const double before = evaluate(problem_, terms, shares);
      if (!refine_shares(problem_, terms, *candidate.spmd, unequal_axes_, &shares)) return;
      const double gained = (before - evaluate(problem_, terms, shares)) / to_seconds(candidate.cost);
      if (!several_axes() && !candidate.fits() && -gained > worth_moving_to_fit) {
        far_.push_back({to_picoseconds(to_seconds(candidate.cost) * (1 - gained)), shares});
        return;
      }
      const double lacking = kept_.best.fits() ? double(candidate.cost) / double(kept_.best.cost) - 1 : 0;
      // The first shares were not made for any program: those of classes that this one does not cut change as well.
      if (!several_axes() && round > 0 && gained < std::max(as_good_as_proven, lacking * worth_following)) return;
      last = std::move(candidate);
    }
  }

  /// Where the cheapest plan of all does not fit, a cheaper one than the best may lie between.
  void search_tight_shares() {
    tight_.follow(likely_.values.empty());
    // What takes very long may be all that fits.
    while (!far_.empty() && !budget_.spent()) {
      const auto next = std::ranges::min_element(far_, {}, &FarShares::cost);
      const FarShares far = *next;
      far_.erase(next);
      if (far.cost < kept_.cost_to_beat()) alternate(far.shares, worth_searching(), &seen_);
    }
    tight_.follow(likely_.values.empty());
  }

  /// Where only likely values were searched so far: everything, once, at the shares of the best plan. `best_shares`:
  /// those of the best plan before memory counted were.
  void search_everything_at_last(bool best_shares) {
    if (searched_everything() || !kept_.fits()) return;
    const Shares shares = kept_.best.shares;
    const Picoseconds* cheapest_there = tight_.cheapest_at(shares);
    if (!cheapest_there) {
      if (best_shares) return;
      search_best_shares();
      tight_.follow(likely_.values.empty());
    } else if (kept_.best.bound < *cheapest_there) {
      kept_.keep(cheapest_of_all(Conversions(*problem_.analysis, problem_.cost, shares), shares));
    }
  }

  static constexpr Picoseconds never_idle = -1;

  /// A program and how it is realised: all that the shares which suit it follow from.
  static std::vector<int> realised(const std::vector<CostTerm>& terms, const Choices& choices) {
    std::vector<int> out = choices.of;
    for (const CostTerm& term : terms)
      if (!term.is_operator)
        out.insert(out.end(), {term.node, int(term.opcode), int(term.realisation), int(term.count)});
    return out;
  }

  /// Nothing is to be learnt of what was found: it is no faster than the best, and the same program was met at other
  /// shares, those that suit it included, or it is no better than what led to its shares.
  bool idle(const Conversions& conversions, const Solution& found, Picoseconds last) const {
    if (last == never_idle || several_axes() || kept_.wants_runners_up() || !kept_.fits() ||
        found.cost < kept_.best.cost)
      return false;
    return found.cost >= last ||
           programs_.contains(realised(cost_terms(problem_, conversions, found.choices), found.choices));
  }

  /// Whatever the memory. Empty if the search was stopped before it met a plan, or in an alternation that came from a
  /// plan of cost `last`, if it is idle to go on.
  Candidate cheapest(const Conversions& conversions, const Shares& shares, Among among, Picoseconds last = never_idle) {
    if (among == Among::relaxation) return cheapest_around_relaxation(conversions, shares);
    if (Candidate candidate = relaxation_at(conversions, shares); !candidate.empty()) return candidate;
    if (!likely_.values.empty()) return cheapest_of_likely(conversions, shares, last);
    // What is no faster than the best hardly leads to what is.
    if (several_axes()) limits_.cost_to_beat = kept_.cost_to_beat();
    return cheapest_of_all(conversions, shares, last);
  }

  /// Which values are likely to be good at other shares.
  bool learns() const {
    return !several_axes() && has_linear_program() && !relaxation_->hard && is_long(problem_.program);
  }

  /// By a search of everything. Raises the bound of the best plan if that has these shares.
  Candidate cheapest_of_all(const Conversions& conversions, const Shares& shares, Picoseconds last = never_idle) {
    Solution solution = search(problem_, conversions, shares, {}, limits_, learns() ? likely_part : 0,
                               learnt_ ? learnt_.get() : relaxation_->learnt.get());
    if (solution.learnt) learnt_ = solution.learnt;
    budget_.searched(solution.search.expansions);
    if (learns()) remember_likely(solution);
    if (kept_.best.shares == shares)
      kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, solution.search.lower_bound));
    HETSYNTH_CHECK(!solution.choices.empty() || budget_.spent() || several_axes() || problem_.constrained ||
                       limits_.cost_to_beat < forbidden,
                   "replicating everything is always a plan");
    if (solution.choices.empty() || idle(conversions, solution, last)) return {};
    Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
    candidate.bound = solution.search.lower_bound;
    return candidate;
  }

  /// Among the values that the relaxation or a search of everything at other shares called likely.
  Candidate cheapest_of_likely(const Conversions& conversions, const Shares& shares, Picoseconds last) {
    Solution solution = search_among(problem_, conversions, shares, likely_, limits_);
    budget_.searched(solution.search.expansions);
    if (solution.choices.empty() || idle(conversions, solution, last)) return {};
    Candidate candidate = make_candidate(problem_, conversions, shares, std::move(solution.choices), solution.cost);
    candidate.bound = shares_bound_;
    return candidate;
  }

  void remember_likely(const Solution& found) {
    ValueLists& values = likely_.values;
    if (found.likely.empty() || found.choices.empty()) return;
    const auto add = [&](size_t node, const std::vector<int>& more) {
      std::vector<int> both;
      std::ranges::set_union(values[node], more, std::back_inserter(both));
      values[node] = std::move(both);
    };
    const bool first = values.empty();
    values.resize(found.likely.size());
    for (size_t n = 0; n < values.size(); ++n) {
      if (first && !relaxation_->around.values.empty()) add(n, relaxation_->around.values[n]);
      add(n, found.likely[n]);
      add(n, {found.choices.of[n]});
    }
  }

  /// Data parallelism and full replication: there without a search.
  void add_unsearched() {
    for (RatioRule rule : {RatioRule::proportional, RatioRule::even}) {
      Shares shares = common_shares(problem_.classes, fractions_of(problem_, rule));
      Conversions conversions(*problem_.analysis, problem_.cost, shares);
      for (const Choices& choices : {data_parallel_choices(problem_), replicated_choices(problem_)})
        kept_.keep(
            make_candidate(problem_, conversions, shares, choices, total_cost(problem_, conversions, shares, choices)));
    }
  }

  Plan assembled(const Candidate& candidate) const {
    return assemble(problem_, candidate.shares, written_out(problem_, candidate),
                    axis_fractions(problem_, device_work(problem_, candidate.shares, candidate.choices)));
  }

  Plan finish() {
    Plan plan = assembled(kept_.best);
    kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, shares_bound_));
    // The bound is a sum of whole picoseconds.
    plan.prediction.lower_bound_seconds = std::min(to_seconds(kept_.best.bound), plan.prediction.step_seconds);
    plan.prediction.shares_bound_seconds = std::min(to_seconds(shares_bound_), plan.prediction.step_seconds);
    plan.prediction.optimal = kept_.best.cost == kept_.best.bound;
    check_memory(problem_, plan.prediction,
                 budget_.spent()        ? "the best plan found in the time given"
                 : problem_.constrained ? "the most thrifty plan found under the pins"
                                        : "the most thrifty plan found");
    return plan;
  }

  const Problem& problem_;
  Budget& budget_;
  SearchLimits limits_;
  const Picoseconds to_beat_;
  std::optional<Relaxation> relaxation_;
  Picoseconds shares_bound_ = 0;  ///< over all shares
  const std::vector<int> unequal_axes_;
  std::set<Shares> seen_;
  std::set<std::vector<int>> programs_;           ///< as `realised` tells them: met in the alternation
  std::shared_ptr<const LearntMessages> learnt_;  ///< by the last search of everything; none: nothing yet
  Neighbourhood likely_;                          ///< by node: values of good programs at some shares; none: not known
  std::set<Shares> searched_;                     ///< of these: where everything was searched after all
  KeptPlans kept_;
  TightShares tight_;
  const Candidate at_hand_;     ///< may be empty
  std::vector<FarShares> far_;  ///< where that takes very long
};

}  // namespace

std::vector<Plan> best_plans(const Problem& problem, Budget& budget, Picoseconds to_beat,
                             std::optional<Relaxation> known, Candidate at_hand, size_t runners_up) {
  return Alternation(problem, budget, to_beat, std::move(known), std::move(at_hand), runners_up).run();
}

}  // namespace hetsynth::synth
