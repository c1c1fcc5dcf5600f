// The inner loop of bucket elimination against adding up entry by entry.
#include "synth/wcsp/bucket_table.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace hetsynth {
namespace {

using namespace synth;

size_t entries(const std::vector<int>& scope, const std::vector<int>& domains) {
  size_t out = 1;
  for (int v : scope) out *= size_t(domains[size_t(v)]);
  return out;
}

/// Of the variables' values; the last of the scope varies fastest.
Picoseconds value_of(const CostFunction& f, const std::vector<int>& assignment, const std::vector<int>& domains,
                     const TableStore& store) {
  size_t at = 0;
  for (int v : f.scope) at = at * size_t(domains[size_t(v)]) + size_t(assignment[size_t(v)]);
  return store[f.table][at];
}

Table added_up(int minimised, const std::vector<int>& scope, const std::vector<CostFunction>& functions,
               const std::vector<int>& domains, const TableStore& store) {
  Table out;
  std::vector<int> assignment(domains.size(), 0);
  for (size_t entry = 0; entry < entries(scope, domains); ++entry) {
    size_t rest = entry;
    for (size_t s = scope.size(); s-- > 0; rest /= size_t(domains[size_t(scope[s])]))
      assignment[size_t(scope[s])] = int(rest % size_t(domains[size_t(scope[s])]));
    out.push_back(forbidden);
    for (int x = 0; x < domains[size_t(minimised)]; ++x) {
      assignment[size_t(minimised)] = x;
      Picoseconds sum = 0;
      for (const CostFunction& f : functions) sum = add(sum, value_of(f, assignment, domains, store));
      out.back() = std::min(out.back(), sum);
    }
  }
  return out;
}

/// Functions of any of the variables, more than can be added without a look at whether the sum is still in range.
RC_GTEST_PROP(BucketTable, IsTheLeastSumOfItsFunctions, ()) {
  std::vector<int> domains;
  for (int v = *rc::gen::inRange(1, 6); v > 0; --v) domains.push_back(*rc::gen::inRange(1, 6));
  const int count = int(domains.size()), minimised = *rc::gen::inRange(0, count);
  TableStore store;
  std::vector<CostFunction> functions;
  std::vector<int> scope;
  for (int k = *rc::gen::weightedElement<int>({{4, 1}, {4, 3}, {4, 5}, {1, 40}, {1, 100}}); k > 0; --k) {
    CostFunction f;
    for (int v = 0; v < count; ++v)
      if (*rc::gen::inRange(0, 3) > 0) f.scope.push_back(v);
    Table table;
    for (size_t i = 0; i < entries(f.scope, domains); ++i)
      table.push_back(*rc::gen::weightedOneOf<Picoseconds>({{8, rc::gen::inRange<Picoseconds>(0, 1000)},
                                                            {1, rc::gen::just(forbidden - 1)},
                                                            {1, rc::gen::just(forbidden)}}));
    f.table = store.intern(std::move(table));
    for (int v : f.scope)
      if (v != minimised) scope.push_back(v);
    functions.push_back(std::move(f));
  }
  std::ranges::sort(scope);
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  Table table;
  RC_ASSERT(minimum_of_sum(minimised, scope, functions, domains, store, {}, &table));
  RC_ASSERT(table == added_up(minimised, scope, functions, domains, store));
}

TEST(BucketTable, EndsWhenStopped) {
  TableStore store;
  std::vector<int> domains(7, 16), scope{0, 1, 2, 3, 4, 5};
  const CostFunction first{{0, 1, 6}, store.intern(Table(16 * 16 * 16, 1))},
      second{{2, 3, 4, 5}, store.intern(Table(16 * 16 * 16 * 16, 2))};
  Table table;
  EXPECT_FALSE(minimum_of_sum(6, scope, {first, second}, domains, store, StopToken([] { return false; }), &table));
}

}  // namespace
}  // namespace hetsynth
