#include "synth/minimise.h"

#include <algorithm>
#include <memory>

#include "dsl/base/error.h"
#include "synth/contract.h"
#include "synth/pruning.h"
#include "synth/reparametrise.h"

namespace hetsynth::synth {
namespace {

/// Networks with more values than this, and so many by variable on average, are pruned before dead ends are looked for.
constexpr int64_t many_values = 5000;
constexpr int64_t many_by_variable = 20;

int64_t count_values(const Network& network) {
  int64_t count = 0;
  for (int v = 0; v < network.variable_count(); ++v) count += network.domain(v);
  return count;
}

/// Step 2 of `minimise`.
class BoundedSearch {
 public:
  /// `rounds`: from how far layers are told apart.
  BoundedSearch(const Network& network, const SearchLimits& limits, int rounds = first_rounds)
      : network_(network),
        limits_(limits),
        rounds_(rounds),
        quotient_(alike(network, &rounds_)),
        messages_(std::make_unique<Reparametrisation>(network, *quotient_, limits.stop)) {}

  SearchResult run() {
    for (int sweeps = sweeps_at_once; !done() && !narrowed_; sweeps += sweeps_at_once) {
      const double gain = messages_->improve(sweeps_at_once);
      patient_ = sweeps < patient_sweeps;
      shift();
      if (double(to_beat()) > double(shifted_.bound) * (1 + worth_guessing)) guess();
      if (!done()) attempt(false);
      if (sweeps >= limits_.most_sweeps || (rounds_ == 0 && gain < least_gain)) break;
      if (rounds_ > 0 && gain < worth_refining && !narrowed_) refine();
    }
    if (!done() && !narrowed_) attempt(true);
    if (!done() && !narrowed_) search_what_is_left();
    return result_;
  }

 private:
  static constexpr int first_rounds = 8, more_rounds = 2;
  static constexpr int sweeps_at_once = 30;
  /// After this many sweeps a small gap is left as it is: the last of it can take many times as long.
  static constexpr int patient_sweeps = 200;
  static constexpr double late_tolerance = 2e-4;
  /// Relative to the bound: gains of a round of sweeps, and the gap above which a better solution is looked for.
  static constexpr double worth_refining = 1e-3, least_gain = 1e-7, worth_guessing = 5e-3;
  /// Message passing begins anew where less than this part of the values is left.
  static constexpr double worth_narrowing = 0.7;

  static std::unique_ptr<Quotient> alike(const Network& network, int* rounds) {
    if (*rounds > 0) {
      auto tied = std::make_unique<Quotient>(quotient(network, *rounds));
      if (tied->cells.size() * 4 < size_t(network.variable_count()) * 3) return tied;
    }
    *rounds = 0;
    return std::make_unique<Quotient>(every_variable(network));
  }

  /// Tells layers apart from farther off.
  void refine() {
    rounds_ *= more_rounds;
    std::unique_ptr<Quotient> finer = alike(network_, &rounds_);
    auto messages = std::make_unique<Reparametrisation>(network_, *finer, limits_.stop);
    messages->begin_with(*messages_);
    messages_ = std::move(messages);
    quotient_ = std::move(finer);
  }

  Picoseconds to_beat() const { return std::min(result_.cost, limits_.cost_to_beat); }

  bool done() const {
    double tolerance = std::max(limits_.tolerance, patient_ ? 0 : late_tolerance);
    return double(to_beat()) / (1 + tolerance) <= double(result_.lower_bound) || limits_.stop.stopped();
  }

  void shift() {
    shifted_ = messages_->apply();
    result_.relaxation = std::max(result_.relaxation, shifted_.bound);
    result_.lower_bound = std::min(result_.cost, std::max(result_.lower_bound, shifted_.bound));
    const std::vector<int>& decoded = messages_->decoded();
    if (!decoded.empty() && network_.cost(decoded) < result_.cost) take(network_.cost(decoded), decoded);
  }

  void take(Picoseconds cost, std::vector<int> assignment) {
    result_.cost = cost;
    result_.assignment = std::move(assignment);
  }

  /// A solution to prune by.
  void guess() {
    for (const ValueLists& by_cell : messages_->guesses()) {
      if (done()) return;
      const ValueLists values = spread(*quotient_, by_cell);
      Contraction part(restrict(network_, values), limits_.stop);
      if (part.impossible()) continue;
      EliminationOrder order = elimination_order(part.core());
      if (order.largest > limits_.direct_limit) return;
      adopt(eliminate_and_search(part.core(), order, limits_), values, part);
    }
  }

  /// Takes over a part's solution.
  void adopt(const SearchResult& found, const ValueLists& values, const Contraction& part) {
    result_.expansions += found.expansions;
    result_.buckets_reused += found.buckets_reused;
    result_.largest_table = std::max(result_.largest_table, found.largest_table);
    const Picoseconds cost = add(found.cost, part.constant());
    if (cost >= result_.cost) return;
    std::vector<int> assignment = part.expanded(found.assignment);
    for (size_t v = 0; v < assignment.size(); ++v) assignment[v] = values[v][size_t(assignment[v])];
    take(cost, std::move(assignment));
  }

  /// By variable: values outside of which there is no solution within the budget. None if there is none at all.
  ValueLists values_left(Picoseconds budget) const {
    ValueLists values = spread(*quotient_, values_within(*quotient_, shifted_, budget));
    if (std::any_of(values.begin(), values.end(), [](auto& v) { return v.empty(); })) return {};
    return values;
  }

  /// Nothing better than the best so far is outside of the values that are left. They are searched with their original
  /// costs: these are equal in repeated layers. Where that is too much, message passing goes on there, if they are
  /// much fewer or `last`: faster and, after dead ends and contraction, with a better bound.
  void attempt(bool last) {
    const Picoseconds budget = to_beat() - shifted_.bound;
    const ValueLists values = values_left(budget);
    if (values.empty()) return prove(budget);
    result_.values_left = 0;
    for (const auto& v : values) result_.values_left += int64_t(v.size());
    const int64_t all = count_values(network_);
    const bool fewer = double(result_.values_left) < worth_narrowing * double(all);
    if (!fewer && !last) return;
    Contraction part(restrict(network_, values), limits_.stop);
    if (part.impossible()) return prove(budget);
    EliminationOrder order = elimination_order(part.core());
    if (order.largest <= limits_.direct_limit)
      return absorb(eliminate_and_search(part.core(), order, limits_), values, part, budget);
    if (!fewer && double(count_values(part.core())) > worth_narrowing * double(all) && rounds_ == 0) return;
    narrowed_ = true;
    SearchLimits limits = limits_;
    limits.cost_to_beat = to_beat() >= forbidden ? forbidden : std::max<Picoseconds>(0, to_beat() - part.constant());
    absorb(BoundedSearch(part.core(), limits, rounds_ * more_rounds).run(), values, part, budget);
  }

  /// Takes over what a search of a part found, which holds all solutions within the budget.
  void absorb(const SearchResult& found, const ValueLists& values, const Contraction& part, Picoseconds budget) {
    adopt(found, values, part);
    const Picoseconds bound = add(found.lower_bound, part.constant());
    prove(std::min(budget, std::max<Picoseconds>(0, bound - shifted_.bound)));
  }

  /// With tables beyond the limit, in mini-buckets: a solution, a bound, and A* in between.
  void search_what_is_left() {
    const Picoseconds budget = to_beat() - shifted_.bound;
    const ValueLists values = values_left(budget);
    if (values.empty()) return prove(budget);
    Contraction part(restrict(network_, values), limits_.stop);
    if (part.impossible()) return prove(budget);
    absorb(eliminate_and_search(part.core(), elimination_order(part.core()), limits_), values, part, budget);
  }

  /// Nothing is cheaper than the bound of message passing plus `excess`, except perhaps what was found.
  void prove(Picoseconds excess) {
    Picoseconds bound = std::min(result_.cost, add(shifted_.bound, excess));
    result_.lower_bound = std::max(result_.lower_bound, bound);
  }

  const Network& network_;
  const SearchLimits& limits_;
  int rounds_;
  std::unique_ptr<Quotient> quotient_;
  std::unique_ptr<Reparametrisation> messages_;
  Reparametrised shifted_;
  bool patient_ = true;
  bool narrowed_ = false;  ///< the rest was left to a search of a part
  SearchResult result_;
};

/// What the cheapest values cost, whatever they do together.
Picoseconds bound_of_parts(const Network& network) {
  Picoseconds bound = 0;
  auto least = [](const Table& table) { return table.empty() ? 0 : *std::min_element(table.begin(), table.end()); };
  for (int v = 0; v < network.variable_count(); ++v) bound = add(bound, least(network.unary(v)));
  for (const Network::Pair& pair : network.pairs()) bound = add(bound, least(network.table(pair)));
  return bound;
}

}  // namespace

SearchResult minimise(const Network& network, const SearchLimits& limits) {
  SearchResult result;
  result.variables = network.variable_count();
  result.lower_bound = bound_of_parts(network);
  if (limits.stop.stopped()) return result;
  const int64_t values = count_values(network);
  const bool large = values > many_values && values > many_by_variable * network.variable_count();
  Contraction contraction(network, limits.stop, large ? Thoroughness::impossible : Thoroughness::dead_ends);
  if (contraction.impossible()) {
    result.lower_bound = forbidden;
    return result;
  }
  const Network& core = contraction.core();
  EliminationOrder order = elimination_order(core);
  bool direct = order.largest <= std::min(limits.direct_limit, limits.table_limit);
  SearchResult found = direct ? eliminate_and_search(core, order, limits) : BoundedSearch(core, limits).run();
  found.variables = result.variables;
  found.values = contraction.value_count();
  if (direct) found.values_left = found.values;
  found.expansions += contraction.removed_count();
  found.largest_table = std::max(found.largest_table, direct ? 0 : order.largest);
  found.cost = add(found.cost, contraction.constant());
  found.lower_bound = std::max(add(found.lower_bound, contraction.constant()), result.lower_bound);
  if (!found.found()) return found;
  found.assignment = contraction.expanded(found.assignment);
  HETSYNTH_CHECK(network.cost(found.assignment) == found.cost,
                 "the search and the network disagree on the cost of an assignment");
  return found;
}

}  // namespace hetsynth::synth
