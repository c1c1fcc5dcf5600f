#include "synth/reparametrise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

class MessagePassing {
 public:
  explicit MessagePassing(const Network& network) : network_(network), at_(network.variable_count()) {
    int count = network.variable_count();
    order_.resize(count);
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(),
              [&](int a, int b) { return std::pair(network.position(a), a) < std::pair(network.position(b), b); });
    std::vector<int> rank(count);
    for (int i = 0; i < count; ++i) rank[order_[i]] = i;
    for (int v = 0; v < count; ++v) unary_.push_back(as_double(network.unary(v)));
    for (const Network::Pair& pair : network.pairs()) {
      auto [a, b, table] = pair;
      bool forward = rank[a] < rank[b];
      auto [costs, fresh] = tables_.try_emplace(table);
      if (fresh) costs->second = as_double(network.table(pair));
      Edge edge{a, b, costs->second.data(), std::vector<double>(network.domain(a), 0),
                std::vector<double>(network.domain(b), 0)};
      at_[a].push_back({int(edges_.size()), true, forward});
      at_[b].push_back({int(edges_.size()), false, !forward});
      edges_.push_back(std::move(edge));
    }
  }

  void run(const Stop& stop, int max_sweeps, int patience) {
    double reached = 0;
    int since = 0;
    for (int sweep = 0; sweep < max_sweeps && since < patience && !stop.stopped(); ++sweep) {
      double bound = pass(true);
      pass(false);
      if (bound > reached + std::abs(reached) * 1e-8)
        reached = bound, since = 0;
      else
        ++since;
    }
    pass(true);
  }

  /// After a forward pass: every variable hands its reweighted costs to its later pairs.
  Reparametrised apply() const {
    Reparametrised out;
    std::vector<std::vector<Picoseconds>> unary, pairs;
    for (int v = 0; v < network_.variable_count(); ++v) unary.push_back(network_.unary(v));
    for (const Network::Pair& pair : network_.pairs()) pairs.push_back(network_.table(pair));
    for (int v : order_) {
      std::vector<double> total = belief(v);
      double weight = share(v);
      for (const Incidence& i : at_[v]) {
        const Edge& edge = edges_[i.edge];
        const auto& incoming = i.first ? edge.into_a : edge.into_b;
        size_t rows = incoming.size(), columns = pairs[i.edge].size() / rows;
        for (size_t x = 0; x < rows; ++x) {
          if (unary[v][x] >= forbidden) continue;
          Picoseconds moved = std::llround((i.later ? weight * total[x] : 0) - incoming[x]);
          unary[v][x] -= moved;
          for (size_t y = 0; y < columns; ++y) {
            Picoseconds& entry = pairs[i.edge][i.first ? x * columns + y : y * rows + x];
            if (entry < forbidden) entry += moved;
          }
        }
      }
    }
    for (int v = 0; v < network_.variable_count(); ++v) {
      out.bound += lift(&unary[v]);
      out.network.add_variable(out.network.store().intern(std::move(unary[v])), network_.position(v));
    }
    for (size_t e = 0; e < edges_.size(); ++e) {
      out.bound += lift(&pairs[e]);
      out.network.add_pair(edges_[e].a, edges_[e].b, out.network.store().intern(std::move(pairs[e])));
    }
    out.network.finish();
    out.decoded = decode();
    return out;
  }

 private:
  struct Edge {
    int a, b;
    const double* costs;                 ///< [a][b]
    std::vector<double> into_a, into_b;  ///< messages
  };
  struct Incidence {
    int edge;
    bool first;  ///< the variable is the edge's a
    bool later;  ///< the other end comes later in the order
  };

  static std::vector<double> as_double(const std::vector<Picoseconds>& table) {
    std::vector<double> out;
    for (Picoseconds cost : table) out.push_back(cost >= forbidden ? infinite : double(cost));
    return out;
  }

  /// Makes the least entry 0 and returns what it was.
  static Picoseconds lift(std::vector<Picoseconds>* table) {
    Picoseconds least = *std::min_element(table->begin(), table->end());
    HETSYNTH_CHECK(least < forbidden, "a table without a possible entry");
    for (Picoseconds& cost : *table)
      if (cost < forbidden) cost -= least;
    return least;
  }

  std::vector<double> belief(int v) const {
    std::vector<double> total = unary_[v];
    for (const Incidence& i : at_[v]) {
      const auto& incoming = i.first ? edges_[i.edge].into_a : edges_[i.edge].into_b;
      for (size_t x = 0; x < total.size(); ++x) total[x] += incoming[x];
    }
    return total;
  }

  double share(int v) const {
    auto later = std::count_if(at_[v].begin(), at_[v].end(), [](const Incidence& i) { return i.later; });
    return 1.0 / double(std::max<int64_t>({1, later, int64_t(at_[v].size()) - later}));
  }

  /// One sweep; the return value grows with the bound.
  double pass(bool forward) {
    double bound = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      int v = order_[forward ? k : order_.size() - 1 - k];
      std::vector<double> total = belief(v);
      double least = *std::min_element(total.begin(), total.end());
      bound += least;
      double weight = share(v);
      for (double& t : total) t = (t - least) * weight;
      for (const Incidence& i : at_[v])
        if (i.later == forward) bound += send(i, total);
    }
    return bound;
  }

  /// Minimum over the sender of what it knows and the pair's cost; its least entry is taken out and returned.
  double send(const Incidence& i, const std::vector<double>& weighted) {
    Edge& edge = edges_[i.edge];
    const auto& back = i.first ? edge.into_a : edge.into_b;
    auto& message = i.first ? edge.into_b : edge.into_a;
    std::fill(message.begin(), message.end(), infinite);
    size_t rows = weighted.size(), columns = message.size();
    for (size_t x = 0; x < rows; ++x) {
      double base = weighted[x] - back[x];
      for (size_t y = 0; y < columns; ++y)
        message[y] = std::min(message[y], base + edge.costs[i.first ? x * columns + y : y * rows + x]);
    }
    double least = *std::min_element(message.begin(), message.end());
    for (double& m : message) m -= least;
    return least;
  }

  /// In order, each variable takes what is cheapest given the earlier ones and the messages of the later ones; then
  /// single changes.
  std::vector<int> decode() const {
    std::vector<int> assignment(at_.size(), -1);
    for (bool improving : {false, true, true})
      for (int v : order_) {
        std::vector<double> total = unary_[v];
        for (const Incidence& i : at_[v]) {
          const Edge& edge = edges_[i.edge];
          int other = assignment[i.first ? edge.b : edge.a];
          const auto& incoming = i.first ? edge.into_a : edge.into_b;
          for (size_t x = 0; x < total.size(); ++x) {
            if (other < 0 || (!improving && i.later))
              total[x] += incoming[x];
            else
              total[x] +=
                  i.first ? edge.costs[x * edge.into_b.size() + other] : edge.costs[other * edge.into_b.size() + x];
          }
        }
        assignment[v] = int(std::min_element(total.begin(), total.end()) - total.begin());
      }
    if (network_.cost(assignment) >= forbidden) return {};
    return assignment;
  }

  const Network& network_;
  std::vector<int> order_;
  std::vector<std::vector<double>> unary_;
  std::unordered_map<int, std::vector<double>> tables_;  ///< by number in the network's store
  std::vector<Edge> edges_;
  std::vector<std::vector<Incidence>> at_;
};

}  // namespace

Reparametrised reparametrise(const Network& network, const Stop& stop, int max_sweeps, int patience) {
  MessagePassing passing(network);
  passing.run(stop, max_sweeps, patience);
  return passing.apply();
}

ValueLists values_within(const Network& network, Picoseconds budget) {
  ValueLists values(network.variable_count());
  for (int v = 0; v < network.variable_count(); ++v) {
    values[v].resize(network.domain(v));
    std::iota(values[v].begin(), values[v].end(), 0);
  }
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<Table> excess;
    for (int v = 0; v < network.variable_count(); ++v) excess.push_back(network.unary(v));
    for (const Network::Pair& pair : network.pairs()) {
      auto [a, b, id] = pair;
      const Table& table = network.table(pair);
      Table least_a(network.domain(a), forbidden), least_b(network.domain(b), forbidden);
      for (int x : values[a])
        for (int y : values[b]) {
          Picoseconds cost = table[size_t(x) * network.domain(b) + y];
          least_a[x] = std::min(least_a[x], cost);
          least_b[y] = std::min(least_b[y], cost);
        }
      for (int x : values[a]) excess[a][x] = add(excess[a][x], least_a[x]);
      for (int y : values[b]) excess[b][y] = add(excess[b][y], least_b[y]);
    }
    for (size_t v = 0; v < values.size(); ++v)
      changed |=
          std::erase_if(values[v], [&](int x) { return excess[v][x] > budget || excess[v][x] >= forbidden; }) > 0;
  }
  return values;
}

}  // namespace hetsynth::synth
