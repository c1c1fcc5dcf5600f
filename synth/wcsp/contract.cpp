#include "synth/wcsp/contract.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "synth/wcsp/dead_ends.h"

namespace hetsynth::synth {
namespace {

/// The network under contraction: neighbours as sorted lists with tables [own value][its value].
class Contracting {
 public:
  struct Neighbour {
    int variable, table;
  };

  explicit Contracting(const Network& network) : store_(network.store()), lists_(network.variable_count()) {
    all_.resize(2 * network.pairs().size());
    size_t begin = 0;
    for (int v = 0; v < network.variable_count(); ++v) {
      unary_.push_back(network.unary_table(v));
      lists_[v].begin = begin;
      begin += network.ends(v).size();
    }
    for (const Network::Pair& pair : network.pairs()) {
      append(pair.a, {pair.b, pair.table});
      append(pair.b, {pair.a, store_.turned(pair.table, network.domain(pair.a))});
    }
  }

  int domain(int v) const { return int(store_[unary_[v]].size()); }
  std::span<const Neighbour> at(int v) const { return {all_.data() + lists_[v].begin, lists_[v].count}; }
  int unary(int v) const { return unary_[v]; }

  /// Puts the minimum over v into the costs of its neighbours: any number if it has one value, at most two otherwise.
  /// Returns what is left over.
  Picoseconds take_out(int v) {
    const std::span<const Neighbour> neighbours = at(v);  // its place stays as it is
    lists_[v].count = 0;
    for (auto [u, table] : neighbours) erase(u, v);
    const Table& own = store_[unary_[v]];
    if (neighbours.empty()) return *std::min_element(own.begin(), own.end());
    if (own.size() == 1) {
      for (auto [u, table] : neighbours) unary_[u] = store_.sum(unary_[u], table);
      return own[0];
    }
    int reduced = minimum(unary_[v], neighbours);
    if (neighbours.size() == 1) {
      int u = neighbours[0].variable;
      unary_[u] = store_.sum(unary_[u], reduced);
    } else {
      add_pair(neighbours[0].variable, neighbours[1].variable, reduced);
    }
    return 0;
  }

 private:
  /// Where a variable's neighbours are: it gets one only in exchange for another, so that there is room.
  struct List {
    size_t begin = 0, count = 0;
  };

  void append(int v, Neighbour neighbour) { all_[lists_[v].begin + lists_[v].count++] = neighbour; }

  /// Of a variable's neighbours the first that is not before another.
  Neighbour* place(int v, int other) {
    Neighbour* begin = all_.data() + lists_[v].begin;
    return std::lower_bound(begin, begin + lists_[v].count, other,
                            [](const Neighbour& n, int variable) { return n.variable < variable; });
  }

  void erase(int from, int other) {
    Neighbour *at = place(from, other), *end = all_.data() + lists_[from].begin + lists_[from].count--;
    for (; at + 1 < end; ++at) *at = at[1];
  }

  /// Over the neighbours' values, the first neighbour's varying slowest.
  int minimum(int unary, std::span<const Neighbour> neighbours) {
    const bool two = neighbours.size() > 1;
    const int first_table = neighbours[0].table, second_table = two ? neighbours[1].table : -1;
    int& known = minima_.at({PairNumbers::word(unary, first_table), PairNumbers::word(0, second_table)});
    if (known >= 0) return known;
    const Table& own = store_[unary];
    const Table& first = store_[first_table];
    size_t rows = own.size(), columns = first.size() / rows;
    const Table one(rows, 0);
    const Table& second = two ? store_[second_table] : one;
    size_t depth = second.size() / rows;
    Table out(columns * depth, forbidden);
    for (size_t x = 0; x < rows; ++x)
      for (size_t y = 0; y < columns; ++y) {
        Picoseconds base = add(own[x], first[x * columns + y]);
        if (base >= forbidden) continue;
        for (size_t z = 0; z < depth; ++z)
          out[y * depth + z] = std::min(out[y * depth + z], add(base, second[x * depth + z]));
      }
    return known = store_.intern(std::move(out));
  }

  void add_pair(int a, int b, int table) {
    add_end(a, b, table);
    add_end(b, a, store_.turned(table, domain(a)));
  }

  void add_end(int from, int to, int table) {
    Neighbour *at = place(from, to), *end = all_.data() + lists_[from].begin + lists_[from].count;
    if (at != end && at->variable == to) {
      at->table = store_.sum(at->table, table);
    } else {
      std::copy_backward(at, end, end + 1);
      *at = {to, table};
      ++lists_[from].count;
    }
  }

  TableStore& store_;
  std::vector<int> unary_;
  std::vector<List> lists_;     ///< by variable
  std::vector<Neighbour> all_;  ///< variable by variable
  PairNumbers minima_;
};

}  // namespace

Contraction::Contraction(const Network& network, const StopToken& stop, Thoroughness values, double pair_limit)
    : store_(network.shared_store()) {
  variables_.resize(network.variable_count());
  std::iota(variables_.begin(), variables_.end(), 0);
  std::unordered_map<int, int> all_of;  // by number of values: a list
  for (int v = 0; v < network.variable_count(); ++v) {
    const auto [it, fresh] = all_of.try_emplace(network.domain(v), -1);
    if (fresh) {
      std::vector<int> all(size_t(network.domain(v)));
      std::iota(all.begin(), all.end(), 0);
      it->second = lists_.number(std::move(all));
    }
    alive_.push_back(it->second);
  }
  for (const Network::Pair& pair : network.pairs())
    stop.spend(int64_t(network.domain(pair.a)) * network.domain(pair.b));
  const bool fewer =
      drop_values(network, values == Thoroughness::dead_ends ? undominated_values(network) : possible_values(network));
  if (!fewer || impossible_) core_ = network;
  for (int list : alive_) values_ += int64_t(lists_[list].size());
  std::vector<int> changed;
  while (!impossible_ && !stop.stopped() && take_out_variables(pair_limit, &changed) &&
         drop_values(core_, values == Thoroughness::dead_ends ? undominated_after(core_, changed)
                                                              : possible_after(core_, changed))) {
  }
}

NamedValues Contraction::named(const NamedValues& whole) const {
  NamedValues out;
  for (int v : variables_) {
    out.variables.push_back(whole.variables[size_t(v)]);
    out.values.emplace_back();
    for (int value : lists_[alive_[size_t(v)]]) out.values.back().push_back(whole.values[size_t(v)][size_t(value)]);
  }
  return out;
}

std::vector<int> Contraction::expanded(const std::vector<int>& core_assignment) const {
  std::vector<int> out(alive_.size(), -1);
  for (size_t i = 0; i < variables_.size(); ++i) out[variables_[i]] = lists_[alive_[variables_[i]]][core_assignment[i]];
  Table costs;
  for (size_t r = removed_.size(), end = neighbours_.size(); r-- > 0;) {
    const Removed& removed = removed_[r];
    costs = (*store_)[removed.unary];
    for (const Neighbour& n : std::span(neighbours_).subspan(removed.begin, end - removed.begin)) {
      const std::vector<int>& values = lists_[n.values];
      size_t column = size_t(std::lower_bound(values.begin(), values.end(), out[n.variable]) - values.begin());
      for (size_t x = 0; x < costs.size(); ++x)
        costs[x] = add(costs[x], (*store_)[n.table][x * values.size() + column]);
    }
    out[removed.variable] =
        lists_[removed.values][size_t(std::min_element(costs.begin(), costs.end()) - costs.begin())];
    end = removed.begin;
  }
  return out;
}

ValueLists Contraction::expanded(const ValueLists& of_core) const {
  ValueLists out;
  for (int list : alive_) out.push_back(lists_[list]);
  for (size_t i = 0; i < variables_.size(); ++i) {
    std::vector<int>& values = out[size_t(variables_[i])];
    for (size_t k = 0; k < of_core[i].size(); ++k) values[k] = values[size_t(of_core[i][k])];
    values.resize(of_core[i].size());
  }
  return out;
}

/// The core becomes the part of a network that has these values. False if every value stays.
bool Contraction::drop_values(const Network& of, const NumberedLists& left) {
  bool changed = false;
  std::map<std::pair<int, int>, int> kept_of;  // of what was there, and of that: a list
  for (size_t i = 0; i < left.of.size(); ++i) {
    int& list = alive_[size_t(variables_[i])];
    impossible_ = impossible_ || left[i].empty();
    if (left[i].size() == lists_[list].size()) continue;
    changed = true;
    const auto [it, fresh] = kept_of.try_emplace({list, left.of[i]}, -1);
    if (fresh) {
      std::vector<int> kept;
      for (int value : left[i]) kept.push_back(lists_[list][size_t(value)]);
      it->second = lists_.number(std::move(kept));
    }
    list = it->second;
  }
  if (changed && !impossible_) core_ = restrict(of, left);
  return changed;
}

/// False if every variable stays. `changed`: those that costs of others have gone into.
bool Contraction::take_out_variables(double pair_limit, std::vector<int>* changed) {
  int count = core_.variable_count();
  Contracting work(core_);
  std::vector<char> gone(count, 0), beside(count, 0);
  std::vector<int> queue;
  queue.reserve(2 * size_t(count));
  queue.resize(size_t(count));
  std::iota(queue.begin(), queue.end(), 0);
  for (size_t i = 0; i < queue.size(); ++i) {
    int v = queue[i];
    bool single = work.domain(v) == 1;
    if (gone[v] || (!single && work.at(v).size() > 2)) continue;
    const auto neighbours = work.at(v);
    if (!single && neighbours.size() == 2 &&
        double(work.domain(neighbours[0].variable)) * work.domain(neighbours[1].variable) > pair_limit)
      continue;
    removed_.push_back({variables_[v], alive_[variables_[v]], work.unary(v), neighbours_.size()});
    for (auto [u, table] : neighbours) {
      neighbours_.push_back({variables_[u], alive_[variables_[u]], table});
      queue.push_back(u);
      beside[u] = 1;
    }
    constant_ = add(constant_, work.take_out(v));
    gone[v] = 1;
  }
  if (std::find(gone.begin(), gone.end(), 1) == gone.end()) return false;
  changed->clear();
  Network next(store_);
  next.reserve(count, core_.pairs().size());
  std::vector<int> number(count, -1), variables;
  for (int v = 0; v < count; ++v) {
    if (gone[v]) continue;
    number[v] = next.add_variable(work.unary(v), core_.position(v));
    if (beside[v]) changed->push_back(number[v]);
    variables.push_back(variables_[v]);
  }
  for (int v = 0; v < count; ++v)
    for (auto [u, table] : work.at(v))
      if (v < u) next.add_pair(number[v], number[u], table);
  next.finish();
  core_ = std::move(next);
  variables_ = std::move(variables);
  return true;
}

}  // namespace hetsynth::synth
