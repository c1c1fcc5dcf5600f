// The search over constraint networks: every step of it against enumeration on small random networks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "synth/wcsp/contract.h"
#include "synth/wcsp/dead_ends.h"
#include "synth/wcsp/pruning.h"
#include "synth/wcsp/reparametrise.h"
#include "synth/wcsp/solve_wcsp.h"

namespace hetsynth {
namespace {

using namespace synth;

Table random_table(size_t entries) {
  return *rc::gen::container<Table>(
      entries,
      rc::gen::weightedOneOf<Picoseconds>({{8, rc::gen::inRange<Picoseconds>(0, 30)}, {1, rc::gen::just(forbidden)}}));
}

/// Few different tables, so that parts of the network are alike.
Network random_network(int variables) {
  Network network;
  std::vector<int> domains, tables;
  for (int v = 0; v < variables; ++v) {
    domains.push_back(*rc::gen::inRange(1, 5));
    Table unary = random_table(size_t(domains[v]));
    unary[0] = std::min<Picoseconds>(unary[0], 40);
    network.add_variable(network.store().intern(unary), *rc::gen::inRange(0, 100));
  }
  for (int a = 0; a < variables; ++a)
    for (int b = 0; b < variables; ++b)
      if (a != b && *rc::gen::inRange(0, 3) == 0)
        network.add_pair(a, b, network.store().intern(random_table(size_t(domains[a]) * size_t(domains[b]))));
  network.finish();
  return network;
}

/// A chain of equal links with ends of their own.
Network random_chain(int links) {
  Network network;
  constexpr int domain = 3;
  TableStore& store = network.store();
  int unary = store.intern(random_table(domain)), pair = store.intern(random_table(domain * domain)),
      across = store.intern(random_table(domain * domain));
  for (int i = 0; i < links; ++i)
    network.add_variable(i == 0 || i + 1 == links ? store.intern(random_table(domain)) : unary, i);
  for (int i = 0; i + 1 < links; ++i) network.add_pair(i, i + 1, pair);
  for (int i = 0; i + 2 < links; ++i) network.add_pair(i, i + 2, across);
  network.finish();
  return network;
}

Picoseconds least_cost(const Network& network) {
  std::vector<int> assignment(network.variable_count(), 0);
  for (Picoseconds best = forbidden;;) {
    best = std::min(best, network.cost(assignment));
    int v = 0;
    while (v < network.variable_count() && ++assignment[v] == network.domain(v)) assignment[v++] = 0;
    if (v == network.variable_count()) return best;
  }
}

RC_GTEST_PROP(Networks, MinimiseEqualsEnumeration, ()) {
  Network network = random_network(*rc::gen::inRange(1, 8));
  SearchLimits limits;
  limits.direct_limit = *rc::gen::element(1.0, 1e6);  // by message passing and pruning, or at once
  limits.table_limit = *rc::gen::element(4.0, 1e6);
  limits.most_sweeps = *rc::gen::element(1, 40, 800);
  limits.guesses = *rc::gen::arbitrary<bool>();
  limits.momentum = *rc::gen::arbitrary<bool>();
  SearchResult result = solve_wcsp(network, limits);
  Picoseconds best = least_cost(network);
  RC_ASSERT(result.cost == best);
  if (best >= forbidden) return;
  RC_ASSERT(result.lower_bound == best);
  RC_ASSERT(network.cost(result.assignment) == best);
}

/// Values that another network may not know, and others by the same names.
NamedValues random_names(const Network& network) {
  NamedValues out;
  for (int v = 0; v < network.variable_count(); ++v) {
    out.variables.push_back(v);
    out.values.emplace_back();
    for (int x = 0, first = *rc::gen::inRange(0, 3); x < network.domain(v); ++x) out.values.back().push_back(first + x);
  }
  return out;
}

RC_GTEST_PROP(Networks, WhatWasLearntElsewhereKeepsTheOptimum, ()) {
  const int variables = *rc::gen::inRange(4, 8);
  const Network other = random_network(variables), network = random_network(variables);
  SearchLimits limits;
  limits.direct_limit = 1;
  limits.most_sweeps = *rc::gen::element(1, 40, 800);
  limits.momentum = *rc::gen::arbitrary<bool>();
  Minimisation before(other, limits);
  before.finish(forbidden);
  const auto learnt = before.learnt(random_names(other));
  Minimisation minimisation(network, limits, learnt.get(), random_names(network));
  const SearchResult result = minimisation.finish(forbidden);
  RC_ASSERT(result.cost == least_cost(network));
  if (result.found()) RC_ASSERT(result.lower_bound == result.cost);
}

/// Of every two variables one or the other choice costs: far from what messages between pairs can tell.
RC_GTEST_PROP(Networks, WhatMessagesLeaveOpenIsSearchedToTheEnd, ()) {
  const int variables = *rc::gen::inRange(6, 9);
  Network network;
  const auto drawn = [](size_t entries) {
    return *rc::gen::container<Table>(entries, rc::gen::inRange<Picoseconds>(0, 1000));
  };
  for (int v = 0; v < variables; ++v) network.add_variable(network.store().intern(drawn(3)), v);
  for (int b = 0; b < variables; ++b)
    for (int a = 0; a < b; ++a) network.add_pair(a, b, network.store().intern(drawn(9)));
  network.finish();
  SearchLimits limits;
  limits.direct_limit = 1;
  limits.guesses = *rc::gen::arbitrary<bool>();
  limits.momentum = *rc::gen::arbitrary<bool>();
  const SearchResult result = solve_wcsp(network, limits);
  RC_ASSERT(result.cost == least_cost(network));
  RC_ASSERT(result.lower_bound == result.cost);
  RC_CLASSIFY(result.relaxation < result.cost * 98 / 100, "messages leave much open");
}

RC_GTEST_PROP(Networks, RepeatedPartsKeepTheOptimum, ()) {
  Network network = random_chain(*rc::gen::inRange(3, 10));
  SearchLimits limits;
  limits.direct_limit = *rc::gen::element(1.0, 1e6);
  limits.most_sweeps = *rc::gen::element(1, 40, 800);
  limits.guesses = *rc::gen::arbitrary<bool>();
  limits.momentum = *rc::gen::arbitrary<bool>();
  SearchResult result = solve_wcsp(network, limits);
  RC_ASSERT(result.cost == least_cost(network));
}

RC_GTEST_PROP(Networks, DeadEndsAndContractionKeepAnOptimum, ()) {
  Network network = random_network(*rc::gen::inRange(1, 7));
  Picoseconds best = least_cost(network);
  for (const auto& values_of : {undominated_values, possible_values})
    if (best < forbidden) RC_ASSERT(least_cost(restrict(network, values_of(network))) == best);
  Contraction contraction(network, {}, *rc::gen::element(Thoroughness::impossible, Thoroughness::dead_ends));
  if (contraction.impossible()) {
    RC_ASSERT(best >= forbidden);
    return;
  }
  SearchResult core = solve_wcsp(contraction.core());
  RC_ASSERT(add(core.cost, contraction.constant()) == best);
  if (best < forbidden) RC_ASSERT(network.cost(contraction.expanded(core.assignment)) == best);
}

/// Where nothing could be left out any more, what can be after changes follows from these alone.
RC_GTEST_PROP(Networks, OnlyBesideChangesCanMoreBeLeftOut, ()) {
  Network network = random_network(*rc::gen::inRange(2, 8));
  const bool dead_ends = *rc::gen::arbitrary<bool>();
  const auto values_of = [&](const Network& of) { return dead_ends ? undominated_values(of) : possible_values(of); };
  for (bool whole = false; !whole;) {
    NumberedLists left = values_of(network);
    whole = true;
    for (int v = 0; v < network.variable_count(); ++v) {
      RC_PRE(!left[size_t(v)].empty());
      whole = whole && left[size_t(v)].size() == size_t(network.domain(v));
    }
    if (!whole) network = restrict(network, left);
  }
  std::vector<int> changed;
  for (int v = 0; v < network.variable_count(); ++v) {
    if (*rc::gen::inRange(0, 3) > 0) continue;
    network.add_costs(v, network.store().intern(random_table(size_t(network.domain(v)))));
    changed.push_back(v);
  }
  const NumberedLists all = values_of(network),
                      beside = dead_ends ? undominated_after(network, changed) : possible_after(network, changed);
  bool fewer = false;
  for (int v = 0; v < network.variable_count(); ++v) {
    RC_ASSERT(all[size_t(v)] == beside[size_t(v)]);
    fewer = fewer || all[size_t(v)].size() < size_t(network.domain(v));
  }
  RC_CLASSIFY(fewer, "something is left out");
}

RC_GTEST_PROP(Networks, NumbersByPairsAreThoseOfAMap, ()) {
  PairNumbers numbers;
  std::map<std::pair<uint64_t, uint64_t>, int> expected;
  const int count = *rc::gen::inRange(0, 200);
  for (int i = 0; i < count; ++i) {
    const auto word = [] { return PairNumbers::word(*rc::gen::inRange(-1, 3), *rc::gen::inRange(-1, 3)); };
    const uint64_t a = word(), b = word();
    const auto [it, fresh] = expected.try_emplace({a, b}, i);
    int& known = numbers.at({a, b});
    RC_ASSERT((known < 0) == fresh);
    if (fresh) known = i;
    RC_ASSERT(numbers.at({a, b}) == it->second);
  }
  for (const auto& [words, number] : expected) RC_ASSERT(numbers.at({words.first, words.second}) == number);
}

/// The costs of cells and edges, given to all variables and pairs that they stand for.
Network unfolded(const Network& network, const Quotient& quotient, const Reparametrised& costs) {
  Network out;
  for (int v = 0; v < network.variable_count(); ++v)
    out.add_variable(out.store().intern(costs.cells[size_t(quotient.cell_of[size_t(v)])]), network.position(v));
  for (size_t p = 0; p < network.pairs().size(); ++p) {
    const auto [a, b, table] = network.pairs()[p];
    const MovedTable moved = costs.edge(size_t(quotient.edge_of[p]));
    Table entries;
    for (int x = 0; x < network.domain(a); ++x)
      for (int y = 0; y < network.domain(b); ++y)
        entries.push_back(moved.at(size_t(x), size_t(y), size_t(network.domain(b))));
    out.add_pair(a, b, out.store().intern(std::move(entries)));
  }
  out.finish();
  return out;
}

void check_messages(Network network) {
  NumberedLists possible = possible_values(network);
  for (size_t v = 0; v < possible.of.size(); ++v) RC_PRE(!possible[v].empty());
  network = restrict(network, possible);
  const Picoseconds best = least_cost(network);
  RC_PRE(best < forbidden);
  const Quotient alike =
      *rc::gen::arbitrary<bool>() ? every_variable(network) : quotient(network, *rc::gen::inRange(1, 5));
  RC_CLASSIFY(alike.cells.size() < size_t(network.variable_count()), "something repeats");
  const SearchLimits unlimited;
  Reparametrisation messages(network, alike, unlimited);
  messages.improve(*rc::gen::element(1, 20));
  const Reparametrised shifted = messages.apply();
  RC_ASSERT(shifted.bound <= best);
  RC_ASSERT(least_cost(unfolded(network, alike, shifted)) == best - shifted.bound);
  const NumberedLists within = spread(alike, values_within(alike, shifted, best - shifted.bound));
  RC_ASSERT(least_cost(restrict(network, within)) == best);
  RC_ASSERT(least_cost(restrict(network, alike, shifted, within)) == best - shifted.bound);
  messages.guesses();  // leaves the bound's messages as they are
  RC_ASSERT(messages.apply().bound == shifted.bound);
}

RC_GTEST_PROP(Networks, MessagesChangeNoCostAndPruneNoCheapSolution, ()) {
  check_messages(random_network(*rc::gen::inRange(1, 7)));
}

RC_GTEST_PROP(Networks, MessagesOfRepeatedPartsPruneNoCheapSolution, ()) {
  check_messages(random_chain(*rc::gen::inRange(3, 10)));
}

RC_GTEST_PROP(Networks, VariablesOfOneCellHaveEquallyManyEndsOfEachEdge, ()) {
  const Network network = random_chain(*rc::gen::inRange(3, 12));
  const Quotient alike = quotient(network, *rc::gen::inRange(1, 5));
  for (int v = 0; v < network.variable_count(); ++v) {
    auto ends_of = [&](int variable) {
      std::multiset<std::pair<int, bool>> ends;
      for (const Network::End& end : network.ends(variable)) ends.insert({alike.edge_of[size_t(end.pair)], end.first});
      return ends;
    };
    const int example = alike.cells[size_t(alike.cell_of[size_t(v)])].example;
    RC_ASSERT(network.unary_table(v) == network.unary_table(example));
    RC_ASSERT(ends_of(v) == ends_of(example));
  }
}

/// Every variable looked at anew in every round.
std::vector<int> plainly_refined(const Network& network, int rounds) {
  std::vector<int> rank(size_t(network.variable_count())), colours;
  const std::vector<int> order = network.in_order();
  for (size_t k = 0; k < order.size(); ++k) rank[size_t(order[k])] = int(k);
  for (int v = 0; v < network.variable_count(); ++v) colours.push_back(network.unary_table(v));
  for (; rounds > 0; --rounds) {
    std::map<std::pair<int, std::multiset<std::array<int, 4>>>, int> number;
    std::vector<int> next;
    for (int v = 0; v < network.variable_count(); ++v) {
      std::multiset<std::array<int, 4>> around;
      for (const Network::End& end : network.ends(v))
        around.insert({network.pairs()[size_t(end.pair)].table, end.first, rank[size_t(v)] < rank[size_t(end.other)],
                       colours[size_t(end.other)]});
      next.push_back(number.try_emplace({colours[size_t(v)], around}, int(number.size())).first->second);
    }
    colours = next;
  }
  return colours;
}

RC_GTEST_PROP(Networks, CellsAreThoseOfPlainRefinement, ()) {
  const Network network =
      *rc::gen::arbitrary<bool>() ? random_chain(*rc::gen::inRange(2, 30)) : random_network(*rc::gen::inRange(1, 7));
  const int rounds = *rc::gen::inRange(1, 12);
  const std::vector<int> cells = quotient(network, rounds).cell_of, expected = plainly_refined(network, rounds);
  std::set<std::pair<int, int>> together;
  for (size_t v = 0; v < cells.size(); ++v) together.insert({cells[v], expected[v]});
  RC_ASSERT(together.size() == std::set<int>(cells.begin(), cells.end()).size());
  RC_ASSERT(together.size() == std::set<int>(expected.begin(), expected.end()).size());
}

/// Pairs of 2 x 3 and of 3 x 2 values whose tables are the same list of numbers: a part of one is none of the other.
TEST(Networks, ThePartOfATableGoesByItsShape) {
  Network network;
  for (int values : {2, 3, 3, 2}) network.add_variable(network.store().intern(Table(size_t(values), 0)), 0);
  const int table = network.store().intern({0, 1, 2, 3, 4, 5});
  network.add_pair(0, 1, table);
  network.add_pair(2, 3, table);
  network.finish();
  const Network part = restrict(network, ValueLists(4, {0, 1}));
  for (int a : {0, 1})
    for (int b : {0, 1})
      for (int c : {0, 1})
        for (int d : {0, 1}) EXPECT_EQ(part.cost({a, b, c, d}), network.cost({a, b, c, d})) << a << b << c << d;
}

TEST(Networks, AStoppedSearchKeepsAProvenBound) {
  Network network;
  TableStore& store = network.store();
  for (int v = 0; v < 4; ++v) network.add_variable(store.intern({3, 5}), v);
  for (int v = 0; v < 4; ++v)
    for (int u = v + 1; u < 4; ++u) network.add_pair(v, u, store.intern({2, 0, 0, 2}));
  network.finish();
  SearchLimits limits;
  limits.stop = StopToken([] { return false; });
  SearchResult result = solve_wcsp(network, limits);
  EXPECT_FALSE(result.found());
  EXPECT_EQ(result.lower_bound, 12);
  EXPECT_EQ(solve_wcsp(network).cost, least_cost(network));
}

}  // namespace
}  // namespace hetsynth
