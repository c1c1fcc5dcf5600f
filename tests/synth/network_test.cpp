// The search over constraint networks: every step of it against enumeration on small random networks.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "synth/contract.h"
#include "synth/dead_ends.h"
#include "synth/minimise.h"
#include "synth/reparametrise.h"

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
  SearchResult result = minimise(network, limits);
  Picoseconds best = least_cost(network);
  RC_ASSERT(result.cost == best);
  if (best >= forbidden) return;
  RC_ASSERT(result.lower_bound == best);
  RC_ASSERT(network.cost(result.assignment) == best);
}

RC_GTEST_PROP(Networks, RepeatedPartsKeepTheOptimum, ()) {
  Network network = random_chain(*rc::gen::inRange(3, 10));
  SearchLimits limits;
  limits.direct_limit = *rc::gen::element(1.0, 1e6);
  SearchResult result = minimise(network, limits);
  RC_ASSERT(result.cost == least_cost(network));
}

RC_GTEST_PROP(Networks, DeadEndsAndContractionKeepAnOptimum, ()) {
  Network network = random_network(*rc::gen::inRange(1, 7));
  Picoseconds best = least_cost(network);
  ValueLists values = undominated_values(network);
  if (best < forbidden) RC_ASSERT(least_cost(restrict(network, values)) == best);
  Contraction contraction(network, {});
  if (contraction.impossible()) {
    RC_ASSERT(best >= forbidden);
    return;
  }
  SearchResult core = minimise(contraction.core());
  RC_ASSERT(add(core.cost, contraction.constant()) == best);
  if (best < forbidden) RC_ASSERT(network.cost(contraction.expanded(core.assignment)) == best);
}

RC_GTEST_PROP(Networks, MessagesChangeNoCostAndPruneNoCheapSolution, ()) {
  Network network = random_network(*rc::gen::inRange(1, 7));
  ValueLists possible = undominated_values(network);
  for (const auto& values : possible) RC_PRE(!values.empty());
  network = restrict(network, possible);
  Picoseconds best = least_cost(network);
  RC_PRE(best < forbidden);
  Stop never;
  Reparametrisation messages(network, never);
  messages.improve(20);
  Reparametrised shifted = messages.apply();
  RC_ASSERT(shifted.bound <= best);
  RC_ASSERT(least_cost(shifted.network) == best - shifted.bound);
  ValueLists within = values_within(shifted.network, best - shifted.bound);
  RC_ASSERT(least_cost(restrict(network, within)) == best);
}

TEST(Networks, AStoppedSearchKeepsAProvenBound) {
  Network network;
  TableStore& store = network.store();
  for (int v = 0; v < 4; ++v) network.add_variable(store.intern({3, 5}), v);
  for (int v = 0; v < 4; ++v)
    for (int u = v + 1; u < 4; ++u) network.add_pair(v, u, store.intern({2, 0, 0, 2}));
  network.finish();
  SearchLimits limits;
  limits.stop = Stop([] { return false; });
  SearchResult result = minimise(network, limits);
  EXPECT_FALSE(result.found());
  EXPECT_EQ(result.lower_bound, 12);
  EXPECT_EQ(minimise(network).cost, least_cost(network));
}

}  // namespace
}  // namespace hetsynth
