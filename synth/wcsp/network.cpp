#include "synth/wcsp/network.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {

int TableStore::sum(int a, int b) {
  int& known = sums_.at({uint64_t(std::min(a, b)), uint64_t(std::max(a, b))});
  if (known < 0) {
    Table out = tables_[a];
    const Table& other = tables_[b];
    HETSYNTH_CHECK(out.size() == other.size(), "tables of different sizes cannot be added");
    for (size_t i = 0; i < out.size(); ++i) out[i] = add(out[i], other[i]);
    known = intern(std::move(out));
  }
  return known;
}

int TableStore::turned(int id, int rows) {
  if (size_t(id) >= turned_last_.size()) turned_last_.resize(size_t(id) + 1, {-1, -1});
  auto& [last_rows, known] = turned_last_[size_t(id)];
  if (last_rows == rows) return known;
  last_rows = rows;
  return known = turned_anew(id, rows);
}

int TableStore::turned_anew(int id, int rows) {
  int& known = turned_.at({uint64_t(id), uint64_t(rows)});
  if (known < 0) {
    const Table& table = tables_[id];
    size_t columns = rows > 0 ? table.size() / size_t(rows) : 0;
    Table out(table.size());
    for (size_t i = 0; i < size_t(rows); ++i)
      for (size_t j = 0; j < columns; ++j) out[j * size_t(rows) + i] = table[i * columns + j];
    known = intern(std::move(out));
  }
  return known;
}

void Network::reserve(int variables, size_t pairs) {
  position_.reserve(size_t(variables));
  unary_.reserve(size_t(variables));
  pairs_.reserve(pairs);
}

int Network::add_variable(int unary, double position) {
  position_.push_back(position);
  unary_.push_back(unary);
  return int(unary_.size()) - 1;
}

void Network::add_costs(int variable, int unary) { unary_[variable] = store_->sum(unary_[variable], unary); }

void Network::add_pair(int a, int b, int table) {
  HETSYNTH_CHECK(a != b && (*store_)[table].size() == size_t(domain(a)) * size_t(domain(b)),
                 "a pair's table must fit its variables");
  if (a > b) {
    table = store_->turned(table, domain(a));
    std::swap(a, b);
  }
  pairs_.push_back({a, b, table});
}

/// In rising order of their ends; of equal ones as they were added.
void Network::sort_pairs() {
  const auto before = [](const Pair& x, const Pair& y) { return std::pair(x.a, x.b) < std::pair(y.a, y.b); };
  // Those of a part of a network stand in order already.
  if (std::is_sorted(pairs_.begin(), pairs_.end(), before)) return;
  std::vector<Pair> sorted(pairs_.size());
  for (int Pair::*end : {&Pair::b, &Pair::a}) {
    std::vector<size_t> begin(unary_.size() + 1, 0);
    for (const Pair& pair : pairs_) ++begin[size_t(pair.*end) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    for (const Pair& pair : pairs_) sorted[begin[size_t(pair.*end)]++] = pair;
    pairs_.swap(sorted);
  }
}

void Network::finish() {
  sort_pairs();
  size_t kept = 0;
  for (const Pair& pair : pairs_) {
    if (kept > 0 && pairs_[kept - 1].a == pair.a && pairs_[kept - 1].b == pair.b)
      pairs_[kept - 1].table = store_->sum(pairs_[kept - 1].table, pair.table);
    else
      pairs_[kept++] = pair;
  }
  pairs_.resize(kept);
  first_end_.assign(unary_.size() + 1, 0);
  for (const Pair& pair : pairs_) ++first_end_[pair.a + 1], ++first_end_[pair.b + 1];
  for (size_t v = 0; v < unary_.size(); ++v) first_end_[v + 1] += first_end_[v];
  ends_.resize(2 * pairs_.size());
  std::vector<size_t> next(first_end_.begin(), first_end_.end() - 1);
  for (size_t p = 0; p < pairs_.size(); ++p) {
    ends_[next[pairs_[p].a]++] = {int(p), pairs_[p].b, true};
    ends_[next[pairs_[p].b]++] = {int(p), pairs_[p].a, false};
  }
}

void Network::replace_tables(std::vector<int> unary, const std::vector<int>& of_pairs) {
  unary_ = std::move(unary);
  for (size_t p = 0; p < pairs_.size(); ++p) {
    pairs_[p].table = of_pairs[p];
    HETSYNTH_CHECK(table(pairs_[p]).size() == size_t(domain(pairs_[p].a)) * size_t(domain(pairs_[p].b)),
                   "a pair's table must fit its variables");
  }
}

int64_t Network::value_count() const {
  int64_t count = 0;
  for (int v = 0; v < variable_count(); ++v) count += domain(v);
  return count;
}

std::vector<int> Network::in_order() const {
  std::vector<int> order(position_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [this](int a, int b) { return position_[size_t(a)] < position_[size_t(b)]; });
  return order;
}

Picoseconds Network::cost(const std::vector<int>& assignment) const {
  Picoseconds total = 0;
  for (int v = 0; v < variable_count(); ++v) total = add(total, unary(v)[assignment[v]]);
  for (const Pair& pair : pairs_)
    total = add(total, table(pair)[size_t(assignment[pair.a]) * domain(pair.b) + assignment[pair.b]]);
  return total;
}

namespace {

/// `of_variable` and `of_pair`: numbered tables.
Network restricted(const Network& network, const NumberedLists& values, const auto& of_variable, const auto& of_pair) {
  TableStore& store = network.store();
  const std::vector<int> only{0};  // the column of what is no pair
  PairNumbers made;
  /// The part's table, computed once for equal tables and lists.
  const auto part_of = [&](NumberedTable whole, int rows, int columns, size_t stride) {
    const std::vector<int>&row_values = values.lists[rows], &column_values = columns < 0 ? only : values.lists[columns];
    if (whole.stored && whole.table.table->size() == row_values.size() * column_values.size()) return whole.number;
    // Pairs of 2 x 3 and of 3 x 2 values may have one table.
    int& known = made.at({PairNumbers::word(whole.number, int(stride)), PairNumbers::word(rows, columns)});
    if (known >= 0) return known;
    Table part;
    part.reserve(row_values.size() * column_values.size());
    for (int x : row_values)
      for (int y : column_values) part.push_back(whole.table.at(size_t(x), size_t(y), stride));
    return known = store.intern(std::move(part));
  };
  std::vector<int> unary, of_pairs;
  unary.reserve(size_t(network.variable_count()));
  of_pairs.reserve(network.pairs().size());
  for (int v = 0; v < network.variable_count(); ++v)
    unary.push_back(part_of(of_variable(v), values.of[size_t(v)], -1, 1));
  for (size_t p = 0; p < network.pairs().size(); ++p) {
    const auto [a, b, table] = network.pairs()[p];
    of_pairs.push_back(part_of(of_pair(p), values.of[size_t(a)], values.of[size_t(b)], size_t(network.domain(b))));
  }
  Network out = network;
  out.replace_tables(std::move(unary), of_pairs);
  return out;
}

NumberedLists numbered(const ValueLists& values) {
  NumberedLists out;
  out.of.reserve(values.size());
  for (const std::vector<int>& list : values) out.of.push_back(out.lists.number(list));
  return out;
}

}  // namespace

Network restrict(const Network& network, const ValueLists& values) { return restrict(network, numbered(values)); }

Network restrict(const Network& network, const NumberedLists& values) {
  const TableStore& store = network.store();
  const auto stored = [&](int table) { return NumberedTable{{&store[table]}, table, true}; };
  return restricted(
      network, values, [&](int variable) { return stored(network.unary_table(variable)); },
      [&](size_t pair) { return stored(network.pairs()[pair].table); });
}

Network restrict(const Network& network, const NumberedLists& values,
                 const std::function<NumberedTable(int)>& of_variable,
                 const std::function<NumberedTable(size_t)>& of_pair) {
  return restricted(network, values, of_variable, of_pair);
}

}  // namespace hetsynth::synth
