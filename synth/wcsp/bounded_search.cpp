#include "synth/wcsp/bounded_search.h"

#include <algorithm>
#include <utility>

#include "synth/wcsp/pruning.h"

namespace hetsynth::synth {
namespace {

/// `rounds`: set to 0 if hardly anything is alike.
std::unique_ptr<Quotient> alike(const Network& network, int* rounds) {
  if (*rounds > 0) {
    auto tied = std::make_unique<Quotient>(quotient(network, *rounds));
    if (tied->cells.size() * 4 < size_t(network.variable_count()) * 3) return tied;
  }
  *rounds = 0;
  return std::make_unique<Quotient>(every_variable(network));
}

}  // namespace

BoundedSearch::BoundedSearch(const Network& network, const SearchLimits& limits, int rounds)
    : network_(network),
      limits_(limits),
      rounds_(rounds),
      quotient_(alike(network, &rounds_)),
      messages_(std::make_unique<Reparametrisation>(network, *quotient_, limits_)) {}

BoundedSearch::BoundedSearch(const Network& network, const SearchLimits& limits, const LearntMessages& known,
                             const NamedValues& names)
    : BoundedSearch(network, limits, known.rounds) {
  messages_->begin_with(known, names);
  informed_ = true;
}

LearntMessages BoundedSearch::learnt(const NamedValues& names) const {
  LearntMessages out = messages_->learnt(names);
  out.rounds = rounds_;
  return out;
}

Picoseconds BoundedSearch::bound_after(int sweeps) {
  messages_->improve(sweeps);
  sweeps_ += sweeps;
  result_.relaxation = std::max(result_.relaxation, messages_->exact_bound());
  return result_.lower_bound = std::min(result_.cost, std::max(result_.lower_bound, result_.relaxation));
}

SearchResult BoundedSearch::finish(Picoseconds cost_to_beat) {
  limits_.cost_to_beat = cost_to_beat;
  while (!done() && !narrowed_ && step()) {
  }
  if (proven() || narrowed_) return result_;
  shift();
  // Where a good solution will do, sweeps may have ended before the bound was still enough for a guess: with one,
  // T5-Large on one axis of two-pcs.toml takes 22.9 s, not 27.2 s.
  const bool good_will_do = limits_.guesses && !limits_.thorough;
  if (!done() && good_will_do) guess();
  if (!done()) attempt(true);
  if (!done() && !narrowed_ && (limits_.thorough || !result_.found())) search_what_is_left();
  return result_;
}

ValueLists BoundedSearch::likely_values(double part) const {
  const ValueLists by_cell = messages_->promising(part);
  ValueLists values;
  for (int cell : quotient_->cell_of) values.push_back(by_cell[size_t(cell)]);
  for (size_t v = 0; v < result_.assignment.size(); ++v) {
    auto at = std::lower_bound(values[v].begin(), values[v].end(), result_.assignment[v]);
    if (at == values[v].end() || *at != result_.assignment[v]) values[v].insert(at, result_.assignment[v]);
  }
  return values;
}

/// Some sweeps, and what follows from them; false if more would be no use.
bool BoundedSearch::step() {
  const bool first = sweeps_ == 0;
  const int sweeps = informed_ && first ? sweeps_if_informed : sweeps_at_once;
  const double gain = messages_->improve(sweeps);
  sweeps_ += sweeps;
  messages_->decode();
  take_decoded();
  // Where the bound does not rise any more only a better solution helps.
  const bool stuck = limits_.guesses && limits_.thorough && gap() > worth_guessing_if_stuck &&
                     gain < gained_of_gap_if_stuck * gap() && guesses_if_stuck_-- > 0;
  const bool helps = guesses_in_vain_ < most_guesses_in_vain;
  if (stuck || (limits_.guesses && helps && gap() > worth_guessing && gain < soon_gained)) {
    const Picoseconds before = result_.cost;
    guess();
    guesses_in_vain_ = result_.cost < before ? 0 : guesses_in_vain_ + 1;
  }
  const bool soon_closed = informed_ || (limits_.momentum && rounds_ == 0);
  const double closed = soon_closed ? std::max(limits_.tolerance, nearly_closed) : limits_.tolerance;
  if (gap() < worth_pruning && (first || gain < gained_of_gap * gap() || gap() <= closed)) {
    shift();
    // What a guess has left open within the tolerance is soon closed.
    if (!done() || (stuck && !limits_.stop.stopped() && result_.lower_bound < to_beat())) attempt(false);
  }
  if (sweeps_ >= limits_.most_sweeps || (rounds_ == 0 && gain < least_gain)) return false;
  if (rounds_ > 0 && gain < worth_refining && !narrowed_) refine();
  return true;
}

/// Tells layers apart from farther off.
void BoundedSearch::refine() {
  rounds_ *= more_rounds;
  std::unique_ptr<Quotient> finer = alike(network_, &rounds_);
  auto messages = std::make_unique<Reparametrisation>(network_, *finer, limits_);
  messages->begin_with(*messages_);
  messages_ = std::move(messages);
  quotient_ = std::move(finer);
}

bool BoundedSearch::proven() const {
  const double elsewhere = double(limits_.constant_cost);
  return (double(to_beat()) + elsewhere) / (1 + limits_.tolerance) <= double(result_.lower_bound) + elsewhere;
}

bool BoundedSearch::done() const { return proven() || limits_.stop.stopped(); }

/// Between the best solution and the best bound of message passing, relative to it.
double BoundedSearch::gap() const {
  return (double(to_beat()) - messages_->reached()) / (messages_->reached() + double(limits_.constant_cost));
}

void BoundedSearch::shift() {
  shifted_ = messages_->apply();
  result_.relaxation = std::max(result_.relaxation, shifted_.bound);
  result_.lower_bound = std::min(result_.cost, std::max(result_.lower_bound, shifted_.bound));
}

void BoundedSearch::take_decoded() {
  const std::vector<int>& decoded = messages_->decoded();
  if (!decoded.empty() && network_.cost(decoded) < result_.cost) take(network_.cost(decoded), decoded);
}

void BoundedSearch::take(Picoseconds cost, std::vector<int> assignment) {
  result_.cost = cost;
  result_.assignment = std::move(assignment);
}

/// A solution to prune by.
void BoundedSearch::guess() {
  for (const ValueLists& by_cell : messages_->guesses()) {
    if (done()) return;
    const NumberedLists values = spread(*quotient_, by_cell);
    Contraction part(restrict(network_, values), limits_.stop);
    if (part.impossible()) continue;
    EliminationOrder order = elimination_order(part.core(), limits_.direct_limit);
    if (order.largest > limits_.direct_limit) return;
    adopt(eliminate_and_search(part.core(), order, limits_), values, part, 0);
  }
}

/// Takes over a part's solution. `moved`: part of the cost that the part does not tell.
void BoundedSearch::adopt(const SearchResult& found, const NumberedLists& values, const Contraction& part,
                          Picoseconds moved) {
  result_.expansions += found.expansions;
  result_.buckets_reused += found.buckets_reused;
  result_.largest_table = std::max(result_.largest_table, found.largest_table);
  const Picoseconds cost = add(found.cost, add(part.constant(), moved));
  if (cost >= result_.cost) return;
  std::vector<int> assignment = part.expanded(found.assignment);
  for (size_t v = 0; v < assignment.size(); ++v) assignment[v] = values[v][size_t(assignment[v])];
  take(cost, std::move(assignment));
}

/// By variable: values outside of which there is no solution within the budget. None if there is none at all.
NumberedLists BoundedSearch::values_left(Picoseconds budget) const {
  const ValueLists by_cell = values_within(*quotient_, shifted_, budget);
  if (std::ranges::any_of(by_cell, &std::vector<int>::empty)) return {};
  return spread(*quotient_, by_cell);
}

/// The part of the network that has these values. At the costs that the messages have moved, so that what they know is
/// not lost; if it is deep, or a good solution will do, at the original ones: these are equal in repeated layers, which
/// elimination then does once, and need no tables of their own.
/// `moved`: how much less its solutions cost.
Network BoundedSearch::part_of(const NumberedLists& values, Picoseconds* moved) const {
  *moved = forgets() ? 0 : shifted_.bound;
  return forgets() ? restrict(network_, values) : restrict(network_, *quotient_, shifted_, values);
}

/// Nothing better than the best so far is outside of the values that are left. Where a search of these is too much,
/// message passing goes on there, if they are much fewer or `last`: faster and, after dead ends and contraction, with a
/// better bound.
void BoundedSearch::attempt(bool last) {
  const Picoseconds budget = to_beat() - shifted_.bound;
  const NumberedLists values = values_left(budget);
  if (values.of.empty()) return prove(budget);
  result_.values_left = 0;
  for (int list : values.of) result_.values_left += int64_t(values.lists[list].size());
  const int64_t all = network_.value_count();
  const bool much = deep() && result_.values_left > many_values_left * network_.variable_count();
  const double worth = much ? worth_narrowing_deep : worth_narrowing;
  const bool fewer = double(result_.values_left) < worth * double(all);
  if (!fewer && !last) return;
  Picoseconds moved = 0;
  const Contraction part(part_of(values, &moved), limits_.stop);
  if (part.impossible()) return prove(budget);
  const EliminationOrder order = elimination_order(part.core(), limits_.direct_limit);
  if (order.largest <= limits_.direct_limit)
    return absorb(eliminate_and_search(part.core(), order, limits_), values, part, moved);
  const bool finer = rounds_ > 0 && limits_.narrows_in_vain;  // layers are told apart there
  if (!fewer && double(part.core().value_count()) > worth * double(all) && !finer) return;
  narrowed_ = true;
  const Picoseconds elsewhere = moved + part.constant();
  const Picoseconds left = to_beat() >= forbidden ? forbidden : std::max<Picoseconds>(0, to_beat() - elsewhere);
  SearchLimits limits = limits_;
  limits.constant_cost += elsewhere;
  absorb(BoundedSearch(part.core(), limits, rounds_ * more_rounds).finish(left), values, part, moved);
}

/// Takes over what a search of a part found, which holds all solutions better than the best so far.
void BoundedSearch::absorb(const SearchResult& found, const NumberedLists& values, const Contraction& part,
                           Picoseconds moved) {
  const Picoseconds budget = to_beat() - shifted_.bound;
  adopt(found, values, part, moved);
  const Picoseconds bound = add(found.lower_bound, add(part.constant(), moved));
  prove(std::min(budget, std::max<Picoseconds>(0, bound - shifted_.bound)));
}

/// With tables beyond the limit, in mini-buckets: a solution, a bound, and A* in between.
void BoundedSearch::search_what_is_left() {
  const Picoseconds budget = to_beat() - shifted_.bound;
  const NumberedLists values = values_left(budget);
  if (values.of.empty()) return prove(budget);
  Picoseconds moved = 0;
  const Contraction part(part_of(values, &moved), limits_.stop);
  if (part.impossible()) return prove(budget);
  const EliminationOrder order = elimination_order(part.core());
  absorb(eliminate_and_search(part.core(), order, limits_), values, part, moved);
}

/// Nothing is cheaper than the bound of message passing plus `excess`, except perhaps what was found.
void BoundedSearch::prove(Picoseconds excess) {
  Picoseconds bound = std::min(result_.cost, add(shifted_.bound, excess));
  result_.lower_bound = std::max(result_.lower_bound, bound);
}

}  // namespace hetsynth::synth
