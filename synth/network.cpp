#include "synth/network.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "dsl/base/error.h"

namespace hetsynth::synth {

int TableStore::intern(std::vector<Picoseconds> table) {
  auto [it, fresh] = number_.try_emplace(std::move(table), int(tables_.size()));
  if (fresh) tables_.push_back(&it->first);
  return it->second;
}

int Network::add_variable(int domain, double position) {
  position_.push_back(position);
  unary_.emplace_back(domain, 0);
  return int(unary_.size()) - 1;
}

void Network::add_cost(int variable, int value, Picoseconds cost) {
  unary_[variable][value] = add(unary_[variable][value], cost);
}

void Network::add_pair(int a, int b, std::vector<Picoseconds> table) {
  HETSYNTH_CHECK(a != b && table.size() == size_t(domain(a)) * domain(b), "a pair's table must fit its variables");
  if (a > b) {
    std::vector<Picoseconds> turned(table.size());
    for (int i = 0; i < domain(a); ++i)
      for (int j = 0; j < domain(b); ++j) turned[size_t(j) * domain(a) + i] = table[size_t(i) * domain(b) + j];
    table = std::move(turned);
    std::swap(a, b);
  }
  auto [it, fresh] = pairs_.try_emplace({a, b}, std::move(table));
  if (!fresh)
    for (size_t i = 0; i < it->second.size(); ++i) it->second[i] = add(it->second[i], table[i]);
}

Picoseconds Network::cost(const std::vector<int>& assignment) const {
  Picoseconds total = 0;
  for (int v = 0; v < variable_count(); ++v) total = add(total, unary_[v][assignment[v]]);
  for (const auto& [ends, table] : pairs_)
    total = add(total, table[size_t(assignment[ends.first]) * domain(ends.second) + assignment[ends.second]]);
  return total;
}

Network restrict(const Network& network, const std::vector<std::vector<int>>& values) {
  Network out;
  for (int v = 0; v < network.variable_count(); ++v) {
    out.add_variable(int(values[v].size()), network.position(v));
    for (size_t x = 0; x < values[v].size(); ++x) out.add_cost(v, int(x), network.unary(v)[values[v][x]]);
  }
  for (const auto& [ends, table] : network.pairs()) {
    std::vector<Picoseconds> part;
    for (int x : values[ends.first])
      for (int y : values[ends.second]) part.push_back(table[size_t(x) * network.domain(ends.second) + y]);
    out.add_pair(ends.first, ends.second, std::move(part));
  }
  return out;
}

namespace {

class DeadEnds {
 public:
  explicit DeadEnds(const Network& network) : network_(network), neighbours_(network.variable_count()) {
    for (int v = 0; v < network.variable_count(); ++v) {
      alive_.emplace_back(network.domain(v));
      std::iota(alive_.back().begin(), alive_.back().end(), 0);
      std::erase_if(alive_.back(), [&](int value) { return network.unary(v)[value] >= forbidden; });
    }
    for (const auto& [ends, table] : network.pairs()) {
      neighbours_[ends.first].push_back({ends.second, &table, size_t(network.domain(ends.second)), 1});
      neighbours_[ends.second].push_back({ends.first, &table, 1, size_t(network.domain(ends.second))});
    }
  }

  std::vector<std::vector<int>> run() {
    std::set<int> pending;
    for (int v = 0; v < network_.variable_count(); ++v) pending.insert(v);
    while (!pending.empty()) {
      int v = *pending.begin();
      pending.erase(pending.begin());
      if (!reduce(v)) continue;
      pending.insert(v);
      for (const Neighbour& n : neighbours_[v]) pending.insert(n.variable);
    }
    return std::move(alive_);
  }

 private:
  struct Neighbour {
    int variable;
    const std::vector<Picoseconds>* table;
    size_t own_stride, its_stride;
    Picoseconds at(int own, int its) const { return (*table)[own * own_stride + its * its_stride]; }
  };

  bool reduce(int v) {
    std::vector<int>& values = alive_[v];
    bool changed = false;
    for (size_t i = values.size(); i-- > 0;) {
      bool dead = impossible(v, values[i]);
      for (size_t j = 0; j < values.size() && !dead; ++j) dead = i != j && dominates(v, values[j], values[i]);
      if (!dead) continue;
      values.erase(values.begin() + i);
      changed = true;
    }
    return changed;
  }

  bool impossible(int v, int value) const {
    for (const Neighbour& n : neighbours_[v]) {
      const auto& others = alive_[n.variable];
      if (std::all_of(others.begin(), others.end(), [&](int u) { return n.at(value, u) >= forbidden; })) return true;
    }
    return false;
  }

  bool dominates(int v, int b, int a) const {
    Picoseconds excess = network_.unary(v)[b] - network_.unary(v)[a];
    for (const Neighbour& n : neighbours_[v]) {
      Picoseconds worst = std::numeric_limits<Picoseconds>::min();
      for (int u : alive_[n.variable]) {
        Picoseconds with_a = n.at(a, u), with_b = n.at(b, u);
        if (with_a >= forbidden) continue;  // not reachable with a
        if (with_b >= forbidden) return false;
        worst = std::max(worst, with_b - with_a);
      }
      if (worst != std::numeric_limits<Picoseconds>::min()) excess += worst;
    }
    return excess <= 0;
  }

  const Network& network_;
  std::vector<std::vector<Neighbour>> neighbours_;
  std::vector<std::vector<int>> alive_;
};

}  // namespace

std::vector<std::vector<int>> undominated_values(const Network& network) { return DeadEnds(network).run(); }

}  // namespace hetsynth::synth
