#include "synth/alternation/alternation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "synth/alternation/fastest_plan.h"
#include "synth/alternation/memory_constrained_shares.h"
#include "synth/alternation/share_search.h"
#include "synth/baselines/baselines.h"
#include "synth/bounds/share_bound.h"
#include "synth/memory/recompute.h"
#include "synth/schedule/candidate.h"
#include "synth/schedule/device_work.h"
#include "synth/schedule/lower.h"
#include "synth/schedule/memory_budget.h"
#include "synth/schedule/memory_floor.h"
#include "synth/shares/ratios.h"
#include "synth/shares/start_shares.h"
#include "synth/support/parameters.h"

namespace hetsynth::synth {
namespace {

class Alternation {
 public:
  Alternation(const Problem& problem, Budget& budget, Picoseconds to_beat, Relaxation relaxation, Candidate at_hand,
              size_t runners_up)
      : problem_(problem),
        budget_(budget),
        relaxation_(std::move(relaxation)),
        shares_bound_(relaxation_.bound),
        kept_(budget, to_beat, runners_up),
        search_(problem, budget, relaxation_, &kept_),
        tight_(problem, budget, &kept_, &seen_, &search_),
        at_hand_(std::move(at_hand)) {}

  std::vector<Plan> run() {
    budget_.searched(relaxation_.expansions);
    if (shares_bound_ >= kept_.to_beat()) return {};
    for (const std::vector<double>& by_device : parts_to_start_at(problem_))
      starts_.push_back(common_shares(problem_.classes, axis_fractions(problem_, by_device)));
    for (const Strategy& strategy : strategies())
      if ((this->*strategy.applies)())
        budget_.run(
            strategy.name, [this] { return best_cost(); }, [&] { (this->*strategy.run)(); });
    if (kept_.best.empty()) return {};
    std::vector<Plan> plans{finish()};
    for (const Candidate& other : kept_.runners_up()) {
      plans.push_back(assembled(other));
      set_bounds(other.shares == kept_.best.shares ? kept_.best.bound : shares_bound_, &plans.back().prediction);
    }
    return plans;
  }

 private:
  using Among = ShareSearch::Among;

  /// One way to a better plan or a better bound of the mesh. All work on the same incumbent (`kept_`), the same bound
  /// over all shares and the same memory of what was searched.
  struct Strategy {
    const char* name;  ///< as `plan --times` tells it
    bool (Alternation::*applies)() const;
    void (Alternation::*run)();
  };

  /// In the order in which they are tried.
  static const std::vector<Strategy>& strategies() {
    using A = Alternation;
    static const std::vector<Strategy> list{
        {"near the relaxation", &A::has_relaxation_of_axes, &A::search_around_relaxation},
        {"the fastest plan where memory is short", &A::has_one_axis, &A::settle_where_memory_is_short},
        {"the relaxation's shares", &A::is_open_on_one_axis, &A::alternate_from_relaxation},
        {"other starts", &A::is_open, &A::follow_starts},
        {"everything at the best shares", &A::is_open_and_ample, &A::search_best_shares},
        {"shares within memory", &A::is_open, &A::follow_tight_shares},
        {"starts left for later", &A::has_starts_left, &A::follow_starts_left},
        {"everything at last", &A::is_open, &A::search_everything_at_last},
        {"the bound over all shares", &A::always, &A::tighten_bound},
        {"the plan at hand", &A::needs_plan_at_hand, &A::take_plan_at_hand},
        {"plans without a search", &A::needs_plan_without_search, &A::add_unsearched},
    };
    return list;
  }

  bool always() const { return true; }
  bool has_one_axis() const { return !several_axes() && !budget_.spent(); }
  bool has_relaxation_of_axes() const { return several_axes() && !relaxation_.choices.empty(); }
  bool is_open() const { return !settled_; }
  bool is_open_on_one_axis() const { return !settled_ && has_one_axis(); }
  bool is_open_and_ample() const { return !settled_ && ample_; }
  bool has_starts_left() const { return !settled_ && starts_left_ && far_within_memory(); }
  bool needs_plan_at_hand() const { return budget_.spent() && !at_hand_.empty(); }
  bool needs_plan_without_search() const {
    return !several_axes() && !problem_.constrained && (kept_.best.empty() || (budget_.spent() && !kept_.best.fits()));
  }

  Picoseconds best_cost() const { return kept_.fits() ? kept_.best.cost : forbidden; }

  void take_plan_at_hand() { kept_.keep(at_hand_); }

  /// Searches and linear programs in turn, from all starts that are worth it.
  void follow_starts() {
    if (memory_is_ample() && !near_bound(well_guided)) search_.forget_likely();
    starts_left_ = !follow(/*may_leave=*/true);
    // Where memory is short the best plan is hardly at the shares of the best so far.
    ample_ = several_axes() || memory_is_ample();
  }

  void follow_tight_shares() { tight_.follow(!search_.of_likely()); }

  void follow_starts_left() {
    follow(/*may_leave=*/false);
    follow_tight_shares();
  }

  /// From one start after the other, until no more are worth it. False if some are left for later, as may be done
  /// once only memory matters.
  bool follow(bool may_leave) {
    double enough = several_axes() ? near_enough_over_shares : near_enough_at_first;
    int followed = 0;
    for (const Shares& shares : starts_) {
      if (budget_.spent() || (near_bound(enough) && !worth_proving())) break;
      if (may_leave && only_memory_matters()) return false;
      enough = near_enough_over_shares;
      if (seen_.contains(shares)) continue;
      if (followed++ >= starts_to_follow() && are_enough_starts()) break;
      alternate(shares, Among::all, &seen_);
    }
    return true;
  }

  /// Plans near the relaxation at all shares, those first that suit its choices best, until one is hard to beat. Leaves
  /// the starts worth a search of everything: of a large network only the best plan's shares, if it fits.
  void search_around_relaxation() {
    std::vector<std::pair<Picoseconds, size_t>> by_cost;
    for (const Shares& shares : starts_) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      by_cost.push_back({total_cost(problem_, conversions, shares, relaxation_.choices), by_cost.size()});
    }
    std::sort(by_cost.begin(), by_cost.end());
    std::vector<Shares> ordered;
    std::set<Shares> seen;
    for (const auto& [cost, start] : by_cost) {
      if (!budget_.spent() && !near_bound()) alternate(starts_[start], Among::relaxation, &seen);
      ordered.push_back(starts_[start]);
    }
    if (search_.small_network())
      starts_ = std::move(ordered);
    else if (!kept_.fits() || near_bound(near_enough_if_large))
      starts_.clear();
    else
      starts_ = {kept_.best.shares};
  }

  /// Everything at the best shares, if that was not searched yet: what is faster, and what other shares that leads to.
  void search_best_shares() {
    if (!kept_.fits() || (several_axes() && !worth_proving())) return;
    if (!several_axes() && near_bound(as_good_as_proven)) return;
    Shares shares = kept_.best.shares;
    for (int round = 0; round < most_alternations && !budget_.spent() && kept_.best.bound < kept_.best.cost; ++round) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      Candidate candidate = search_.cheaper_than_best(conversions, shares);
      if (candidate.empty()) return;
      const bool faster = better(candidate, kept_.best);
      kept_.keep(candidate);
      if (!candidate.fits()) tight_.add(candidate);
      if (!faster || !search_.has_linear_program()) return;
      const std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.choices);
      if (!refine_shares(problem_, terms, *candidate.spmd, search_.unequal_axes(), &shares) ||
          !searched_.insert(shares).second)
        return;
    }
  }

  /// Returns how many starts are followed in any case; others follow unless are_enough_starts says so.
  int starts_to_follow() const { return first_starts + (ample_shares_.empty() && !near_bound(worth_one_more_start)); }

  /// Returns whether no more starts are followed after the first ones: shares by speed and even shares mostly lead to
  /// the best plan, unless memory is short.
  bool are_enough_starts() const { return !several_axes() && !budget_.patient() && memory_is_ample(); }

  /// The best plan fits, and none that does not is faster.
  bool memory_is_ample() const { return kept_.best.fits() && !tight_.faster(); }

  /// What does not fit at some shares is so fast that no others are much faster: what fits is searched for there.
  bool only_memory_matters() const {
    return !several_axes() && !budget_.patient() &&
           double(tight_.least()) <= double(shares_bound_) * (1 + near_enough_within_memory);
  }

  /// And yet what was found within memory is far from the bound there, if anything was.
  bool far_within_memory() const {
    return !kept_.fits() || double(kept_.best.cost) > double(kept_.best.bound) * (1 + worth_following_if_tight);
  }

  /// No other shares are worth a search.
  bool near_bound(double enough = near_enough_over_shares) const {
    return kept_.fits() && double(kept_.best.cost) <= double(shares_bound_) * (1 + enough);
  }

  /// The best of the relaxation's neighbourhood may be the best of all, which a small network soon shows.
  bool worth_proving() const {
    return !search_.of_likely() && search_.small_network() && kept_.best.bound < kept_.best.cost;
  }

  /// Branch and bound over the shares of the class that most of the plan's work is cut by.
  void tighten_bound() {
    if (several_axes() || relaxation_.hard || !kept_.fits() || near_bound(worth_tightening) ||
        !problem_.ratio.empty() || device_types(problem_.cluster).devices.size() < 2)
      return;
    const int most = class_of_most_work(problem_, *kept_.best.spmd);
    if (most < 0) return;
    shares_bound_ = std::max(
        shares_bound_, tighter_bound_over_shares(problem_, most, shares_bound_, kept_.best.cost,
                                                 near_enough_over_shares, most_branches, budget_.stop_of_attempt(),
                                                 relaxation_.choices, relaxation_.learnt.get(), kept_.best.shares));
    budget_.searched();
  }

  bool several_axes() const { return search_.several_axes(); }

  /// On one axis, where the relaxation's program does not fit at the shares that suit it: the fastest
  /// plan whatever the memory, and what fits near by. Settled unless memory is not short, or nothing near that plan
  /// fits.
  void settle_where_memory_is_short() {
    std::vector<LimitPrice> met;
    MemoryLimits soft{.seconds_over = soft_price * to_seconds(relaxation_.bound), .met = &met};
    const Candidate relaxed = relaxed_program(problem_, search_, relaxation_, soft);
    if (relaxed.fits() && met.empty()) ample_shares_ = relaxed.shares;
    if (relaxed.empty() || relaxed.fits()) return;
    soft.met = nullptr;
    search_.begin_with_likely();
    const Candidate fastest = fastest_from(problem_, relaxed.shares, soft, &search_, budget_);
    kept_.keep(fastest);
    const bool found = !fastest.empty() && !fastest.fits() && tight_.settle(fastest, relaxed);
    // While there is patience all starts are followed as well: gpt.cpp within 24 MiB a device is 3 % faster for it.
    settled_ = found && !budget_.patient();
  }

  /// From the shares that suit the relaxation's program, if there are any, among what the relaxation calls likely.
  void alternate_from_relaxation() {
    const Shares shares = ample_shares_.empty() ? relaxed_shares(problem_, search_, relaxation_, {}) : ample_shares_;
    if (shares.empty()) return;
    search_.begin_with_likely();
    alternate(shares, Among::all, &seen_);
  }

  /// Search at fixed shares, shares by linear programming for the program found, and again, until nothing improves or
  /// the shares were seen.
  void alternate(Shares shares, Among among, std::set<Shares>* seen) {
    Candidate last;
    for (int round = 0; round < most_alternations && !budget_.spent() && seen->insert(shares).second; ++round) {
      const Conversions conversions(*problem_.analysis, problem_.cost, shares);
      Candidate candidate = search_.cheapest(conversions, shares, among);
      if (candidate.empty()) return;
      const std::vector<CostTerm> terms = cost_terms(problem_, conversions, candidate.choices);
      if (!several_axes() || candidate.cost < kept_.to_beat()) {
        kept_.keep(candidate);
        if (!candidate.fits()) tight_.add(candidate);
      }
      if (!search_.has_linear_program() || (round > 0 && !better(candidate, last)) || (several_axes() && near_bound()))
        return;
      const double before = evaluate(problem_, terms, shares);
      if (!refine_shares(problem_, terms, *candidate.spmd, search_.unequal_axes(), &shares)) return;
      const double gained = (before - evaluate(problem_, terms, shares)) / to_seconds(candidate.cost);
      const double lacking = kept_.best.fits() ? double(candidate.cost) / double(kept_.best.cost) - 1 : 0;
      // The first shares were not made for any program: those of classes that this one does not cut change as well.
      if (!several_axes() && round > 0 && gained < std::max(as_good_as_proven, lacking * worth_following)) return;
      last = std::move(candidate);
    }
  }

  /// Where only likely values were searched so far: everything, once, at the shares of the best plan, for a bound.
  void search_everything_at_last() {
    if (!search_.of_likely() || !kept_.fits()) return;
    const Shares shares = kept_.best.shares;
    const Picoseconds* cheapest_there = tight_.cheapest_at(shares);
    if (!cheapest_there) {
      if (ample_) return;  // that was done
      search_best_shares();
      tight_.follow(/*of_all=*/false);
    } else if (kept_.best.bound < *cheapest_there) {
      kept_.keep(search_.nearly_cheapest(Conversions(*problem_.analysis, problem_.cost, shares), shares));
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

  /// `at_its_shares`: a sum of whole picoseconds, which the objective in seconds may be below by rounding.
  void set_bounds(Picoseconds at_its_shares, Prediction* prediction) const {
    prediction->lower_bound_seconds = std::min(to_seconds(at_its_shares), prediction->objective_seconds);
    prediction->shares_bound_seconds = std::min(to_seconds(shares_bound_), prediction->objective_seconds);
  }

  Plan finish() {
    Plan plan = assembled(kept_.fits() ? kept_.best : recomputed_to_be_thrifty(problem_, kept_.best));
    kept_.best.bound = std::max(kept_.best.bound, std::min(kept_.best.cost, shares_bound_));
    set_bounds(kept_.best.bound, &plan.prediction);
    plan.prediction.optimal = kept_.best.cost == kept_.best.bound;
    // Where planning is ended early, a plan that fills a memory is better than none.
    if (budget_.spent())
      check_memory(problem_, plan.prediction, "the best plan found in the time given",
                   "let planning go on, what fits may still be found; or ");
    else
      check_memory_budget(
          problem_, plan.prediction,
          problem_.constrained ? "the most thrifty plan found under the pins" : "the most thrifty plan found");
    return plan;
  }

  const Problem& problem_;
  Budget& budget_;
  const Relaxation relaxation_;
  Picoseconds shares_bound_;  ///< over all shares
  std::set<Shares> seen_;
  std::set<Shares> searched_;  ///< of these: where everything was searched after all
  Incumbent kept_;
  ShareSearch search_;
  MemoryConstrainedShares tight_;
  const Candidate at_hand_;  ///< may be empty
  std::vector<Shares> starts_;
  bool settled_ = false;      ///< the plan was found near the fastest one whatever the memory
  bool starts_left_ = false;  ///< some were left for later, since only memory matters
  bool ample_ = false;        ///< memory did not count after the starts were followed
  Shares ample_shares_;       ///< that suit the relaxation's program, if no memory limits these; may be empty
};

}  // namespace

std::vector<Plan> best_plans(const Problem& problem, Budget& budget, Picoseconds to_beat,
                             std::optional<Relaxation> known, Candidate at_hand, size_t runners_up) {
  check_memory_floor(problem);
  if (!known) known = MeshBound(problem, budget.stop()).relaxation(to_beat);
  return Alternation(problem, budget, to_beat, *std::move(known), std::move(at_hand), runners_up).run();
}

}  // namespace hetsynth::synth
