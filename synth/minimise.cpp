#include "synth/minimise.h"

#include <algorithm>

#include "dsl/base/error.h"
#include "synth/contract.h"
#include "synth/reparametrise.h"

namespace hetsynth::synth {
namespace {

/// Step 2 of `minimise`.
class BoundedSearch {
 public:
  BoundedSearch(const Network& network, const SearchLimits& limits)
      : network_(network), limits_(limits), messages_(network, limits.stop) {}

  SearchResult run() {
    bool gaining = true;
    for (int sweeps = first_sweeps; !done() && !narrowed_; sweeps *= 2) {
      gaining = messages_.improve(sweeps) && sweeps < limits_.most_sweeps;
      patient_ = sweeps < patient_sweeps;
      shift();
      // As long as messages can still do better, large tables are not worth their time.
      double table_limit = gaining ? std::min(limits_.table_limit, limits_.direct_limit) : limits_.table_limit;
      while (!done() && !narrowed_ && attempt(table_limit)) {
      }
      if (!gaining) break;
    }
    if (!done() && !narrowed_) search_what_is_left();
    return result_;
  }

 private:
  static constexpr int first_sweeps = 12;
  /// After this many sweeps a small gap is left as it is: the last of it can take many times as long.
  static constexpr int patient_sweeps = 200;
  static constexpr double late_tolerance = 2e-4;

  bool done() const {
    double tolerance = std::max(limits_.tolerance, patient_ ? 0 : late_tolerance);
    double enough = double(std::min(result_.cost, limits_.cost_to_beat)) / (1 + tolerance);
    return enough <= double(result_.lower_bound) || limits_.stop.stopped();
  }

  void shift() {
    shifted_ = messages_.apply();
    result_.relaxation = std::max(result_.relaxation, shifted_.bound);
    result_.lower_bound = std::min(result_.cost, std::max(result_.lower_bound, shifted_.bound));
    budget_ = std::max<Picoseconds>(1, shifted_.bound / 1'000'000);
    if (shifted_.decoded.empty()) return;
    Picoseconds cost = network_.cost(shifted_.decoded);
    if (cost < result_.cost) take(cost, shifted_.decoded);
  }

  void take(Picoseconds cost, std::vector<int> assignment) {
    result_.cost = cost;
    result_.assignment = std::move(assignment);
  }

  /// Looks for solutions below the bound plus the budget, which then grows. False: the tables are too large.
  bool attempt(double table_limit) {
    Picoseconds gap = result_.cost - shifted_.bound;  // with this budget nothing better is left out
    budget_ = std::min(budget_, gap);
    ValueLists values = values_within(shifted_.network, budget_);
    if (std::none_of(values.begin(), values.end(), [](auto& v) { return v.empty(); })) {
      Contraction part(restrict(network_, values), limits_.stop);
      EliminationOrder order = elimination_order(part.core());
      if (!part.impossible() && order.largest > table_limit) return budget_ == gap && narrow(values, part);
      if (!search_part(values, part, order)) return false;
    } else {
      prove(budget_);
    }
    // A better solution may have brought the gap within reach of the next step.
    gap = result_.cost - shifted_.bound;
    budget_ = budget_ > forbidden / 16 ? forbidden : budget_ * 16;
    if (gap <= budget_ * 64) budget_ = gap;
    return true;
  }

  /// Nothing better than what was found lies outside of the part: if that is much smaller, message passing goes on
  /// there, faster and, after dead ends and contraction, with a better bound. False if it is not.
  bool narrow(const ValueLists& values, const Contraction& part) {
    if (part.core().variable_count() * 4 > network_.variable_count() * 3) return false;
    SearchLimits limits = limits_;
    Picoseconds enough = std::min(result_.cost, limits_.cost_to_beat);
    limits.cost_to_beat = enough >= forbidden ? forbidden : std::max<Picoseconds>(0, enough - part.constant());
    absorb(BoundedSearch(part.core(), limits).run(), values, part);
    narrowed_ = true;
    return true;
  }

  /// The values that remain are searched with their original costs: these are equal in repeated layers. False if
  /// stopped before the part was searched.
  bool search_part(const ValueLists& values, const Contraction& part, const EliminationOrder& order) {
    if (part.impossible()) return prove(budget_), true;
    return absorb(eliminate_and_search(part.core(), order, limits_), values, part);
  }

  /// Takes over what a search of a part found. False if it did not end.
  bool absorb(const SearchResult& found, const ValueLists& values, const Contraction& part) {
    result_.expansions += found.expansions;
    result_.buckets_reused += found.buckets_reused;
    result_.largest_table = std::max(result_.largest_table, found.largest_table);
    result_.values_left = 0;
    for (const auto& v : values) result_.values_left += int64_t(v.size());
    Picoseconds cost = add(found.cost, part.constant()), bound = add(found.lower_bound, part.constant());
    if (cost < result_.cost) {
      std::vector<int> assignment = part.expanded(found.assignment);
      for (size_t v = 0; v < assignment.size(); ++v) assignment[v] = values[v][assignment[v]];
      take(cost, std::move(assignment));
    }
    prove(std::min(budget_, std::max<Picoseconds>(0, bound - shifted_.bound)));
    return found.cost == found.lower_bound;
  }

  /// With tables beyond the limit, in mini-buckets: a solution, a bound, and A* in between.
  void search_what_is_left() {
    budget_ = result_.cost - shifted_.bound;
    ValueLists values = values_within(shifted_.network, budget_);
    if (std::any_of(values.begin(), values.end(), [](auto& v) { return v.empty(); })) return prove(budget_);
    Contraction part(restrict(network_, values), limits_.stop);
    search_part(values, part, elimination_order(part.core()));
  }

  /// Nothing is cheaper than the bound of message passing plus `excess`, except perhaps what was found.
  void prove(Picoseconds excess) {
    Picoseconds bound = std::min(result_.cost, add(shifted_.bound, excess));
    result_.lower_bound = std::max(result_.lower_bound, bound);
  }

  const Network& network_;
  const SearchLimits& limits_;
  Reparametrisation messages_;
  Reparametrised shifted_;
  Picoseconds budget_ = 0;
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
  Contraction contraction(network, limits.stop);
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
