#include "synth/wcsp/solve_wcsp.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "dsl/base/error.h"
#include "synth/support/parameters.h"
#include "synth/wcsp/bounded_search.h"
#include "synth/wcsp/contract.h"

namespace hetsynth::synth {
namespace {

/// What the cheapest values cost, whatever they do together.
Picoseconds bound_of_parts(const Network& network) {
  Picoseconds bound = 0;
  std::unordered_map<int, Picoseconds> least_of;  // by table
  const auto least = [&](int number) {
    const auto [it, fresh] = least_of.try_emplace(number, 0);
    const Table& table = network.store()[number];
    if (fresh && !table.empty()) it->second = *std::min_element(table.begin(), table.end());
    return it->second;
  };
  for (int v = 0; v < network.variable_count(); ++v) bound = add(bound, least(network.unary_table(v)));
  for (const Network::Pair& pair : network.pairs()) bound = add(bound, least(pair.table));
  return bound;
}

Thoroughness thoroughness(const Network& network) {
  const int64_t values = network.value_count();
  const bool large = values > many_values && values > many_by_variable * network.variable_count();
  return large ? Thoroughness::impossible : Thoroughness::dead_ends;
}

}  // namespace

/// What is known once contraction is done.
struct Minimisation::State {
  State(const Network& whole, const SearchLimits& given, const LearntMessages* known, const NamedValues& names)
      : network(whole), limits(given), contraction(whole, limits.stop, thoroughness(whole)) {
    if (contraction.impossible()) return;
    const double direct_limit = std::min(limits.direct_limit, limits.table_limit);
    order = elimination_order(contraction.core(), direct_limit);
    direct = order.largest <= direct_limit;
    if (direct) return;
    SearchLimits of_core = limits;
    of_core.constant_cost += contraction.constant();
    bounded = known ? std::make_unique<BoundedSearch>(contraction.core(), of_core, *known, contraction.named(names))
                    : std::make_unique<BoundedSearch>(contraction.core(), of_core);
  }

  /// What elimination finds, which asks for no cost to beat: done once.
  const SearchResult& eliminated() {
    if (!eliminated_) eliminated_ = eliminate_and_search(contraction.core(), order, limits);
    return *eliminated_;
  }

  const Network& network;
  const SearchLimits limits;
  Contraction contraction;
  EliminationOrder order;
  bool direct = false;
  std::unique_ptr<BoundedSearch> bounded;  ///< unless direct

 private:
  std::optional<SearchResult> eliminated_;
};

Minimisation::Minimisation(const Network& network, const SearchLimits& limits, const LearntMessages* known,
                           const NamedValues& names)
    : bound_(bound_of_parts(network)) {
  if (!limits.stop.stopped()) state_ = std::make_unique<State>(network, limits, known, names);
  if (state_ && state_->contraction.impossible()) bound_ = forbidden;
}

Minimisation::~Minimisation() = default;

std::shared_ptr<const LearntMessages> Minimisation::learnt(const NamedValues& names) const {
  if (!state_ || !state_->bounded) return nullptr;
  return std::make_shared<const LearntMessages>(state_->bounded->learnt(state_->contraction.named(names)));
}

Picoseconds Minimisation::bound_after(int sweeps) {
  if (!state_ || bound_ >= forbidden) return bound_;
  const Picoseconds constant = state_->contraction.constant();
  if (!state_->bounded)
    bound_ = std::max(bound_, finish(forbidden).lower_bound);
  else
    bound_ = std::max(bound_, add(state_->bounded->bound_after(sweeps), constant));
  return bound_;
}

SearchResult Minimisation::finish(Picoseconds cost_to_beat) {
  SearchResult found;
  found.lower_bound = bound_;
  if (!state_ || bound_ >= forbidden) return found;
  const Contraction& contraction = state_->contraction;
  const Picoseconds constant = contraction.constant();
  const Picoseconds core_to_beat =
      cost_to_beat >= forbidden ? forbidden : std::max<Picoseconds>(0, cost_to_beat - constant);
  found = state_->direct ? state_->eliminated() : state_->bounded->finish(core_to_beat);
  found.variables = state_->network.variable_count();
  found.values = contraction.value_count();
  if (state_->direct) found.values_left = found.values;
  found.expansions += contraction.removed_count();
  found.largest_table = std::max(found.largest_table, state_->direct ? 0 : state_->order.largest);
  found.cost = add(found.cost, constant);
  found.lower_bound = std::max(add(found.lower_bound, constant), bound_);
  if (!found.found()) return found;
  found.assignment = contraction.expanded(found.assignment);
  HETSYNTH_CHECK(state_->network.cost(found.assignment) == found.cost,
                 "the search and the network disagree on the cost of an assignment");
  return found;
}

ValueLists Minimisation::likely_values(double part) const {
  if (!state_ || bound_ >= forbidden || state_->direct) return {};
  return state_->contraction.expanded(state_->bounded->likely_values(part));
}

SearchResult solve_wcsp(const Network& network, const SearchLimits& limits) {
  return Minimisation(network, limits).finish(limits.cost_to_beat);
}

}  // namespace hetsynth::synth
