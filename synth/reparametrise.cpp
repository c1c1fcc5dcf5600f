#include "synth/reparametrise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "dsl/base/error.h"
#include "synth/colouring.h"

namespace hetsynth::synth {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
/// Rounds of refinement: how far from the ends of the program layers count as different.
constexpr int colour_rounds = 12;
/// Sweeps over what repeats, tied. Many more would drive the messages to those of endlessly many layers.
constexpr int tied_sweeps = 60;
/// Sweeps without a gain after which the bound counts as final.
constexpr int patience = 16;

/// Message passing over the colours of a partition: one message serves all pairs that look alike.
class MessagePassing {
 public:
  MessagePassing(const Network& network, const std::vector<int>& rank, const Colouring& colouring)
      : network_(network), colouring_(colouring) {
    std::unordered_map<std::vector<int>, int, SequenceHash> number;
    for (const Network::Pair& pair : network.pairs()) {
      bool forward = rank[pair.a] < rank[pair.b];
      auto [it, fresh] = number.try_emplace({pair.table, colouring.colour[pair.a], colouring.colour[pair.b], forward},
                                            int(edges_.size()));
      if (fresh) {
        edges_.push_back(make_edge(pair));
        edges_.back().forward = forward;
      }
      ++edges_[it->second].count;
      edge_of_pair_.push_back(it->second);
    }
    order_.resize(colouring.representative.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(),
              [&](int a, int b) { return rank[colouring.representative[a]] < rank[colouring.representative[b]]; });
    for (int v : colouring.representative) {
      Cell cell{as_double(network.unary(v)), {}, 0};
      double later = 0;
      for (const Network::End& end : network.ends(v)) {
        cell.ends.push_back({edge_of_pair_[end.pair], end.first, rank[v] < rank[end.other]});
        later += cell.ends.back().later;
      }
      cell.weight = 1 / std::max({1.0, later, double(cell.ends.size()) - later});
      cells_.push_back(std::move(cell));
    }
  }

  /// Begins with the messages of another partition of the same network.
  void begin_with(const MessagePassing& other) {
    for (size_t p = 0; p < edge_of_pair_.size(); ++p) {
      edges_[edge_of_pair_[p]].into_a = other.edges_[other.edge_of_pair_[p]].into_a;
      edges_[edge_of_pair_[p]].into_b = other.edges_[other.edge_of_pair_[p]].into_b;
    }
  }

  /// False if the bound gains less than 1e-8 of itself in `patience` sweeps, or if stopped. Ends with a forward pass.
  bool run(const Stop& stop, int sweeps) {
    for (int sweep = 0; sweep < sweeps && since_gain_ < patience && !stop.stopped(); ++sweep) {
      double bound = pass(true);
      pass(false);
      if (!(bound <= reached_ + std::abs(reached_) * 1e-8))
        reached_ = bound, since_gain_ = 0;
      else
        ++since_gain_;
    }
    pass(true);
    return since_gain_ < patience && !stop.stopped();
  }

  /// After a forward pass: every variable hands its reweighted costs to its later pairs.
  Reparametrised apply() const {
    Reparametrised out;
    std::vector<Table> unary, pairs;
    for (int v = 0; v < network_.variable_count(); ++v) unary.push_back(network_.unary(v));
    for (const Network::Pair& pair : network_.pairs()) pairs.push_back(network_.table(pair));
    for (int v = 0; v < network_.variable_count(); ++v) {
      const Cell& cell = cells_[colouring_.colour[v]];
      std::vector<double> total = belief(cell);
      for (const Network::End& end : network_.ends(v)) {
        const Edge& edge = edges_[edge_of_pair_[end.pair]];
        const auto& incoming = end.first ? edge.into_a : edge.into_b;
        bool later = edge.forward == end.first;
        Table& table = pairs[end.pair];
        size_t rows = incoming.size(), columns = table.size() / rows;
        for (size_t x = 0; x < rows; ++x) {
          if (unary[v][x] >= forbidden) continue;
          Picoseconds moved = std::llround((later ? cell.weight * total[x] : 0) - incoming[x]);
          unary[v][x] -= moved;
          for (size_t y = 0; y < columns; ++y) {
            Picoseconds& entry = table[end.first ? x * columns + y : y * rows + x];
            if (entry < forbidden) entry += moved;
          }
        }
      }
    }
    TableStore& store = out.network.store();
    for (int v = 0; v < network_.variable_count(); ++v) {
      out.bound += lift(&unary[v]);
      out.network.add_variable(store.intern(std::move(unary[v])), network_.position(v));
    }
    for (size_t p = 0; p < pairs.size(); ++p) {
      out.bound += lift(&pairs[p]);
      out.network.add_pair(network_.pairs()[p].a, network_.pairs()[p].b, store.intern(std::move(pairs[p])));
    }
    out.network.finish();
    out.decoded = decode();
    return out;
  }

 private:
  struct Edge {
    const double* costs;                 ///< [a][b]
    const double* turned;                ///< [b][a]
    std::vector<double> into_a, into_b;  ///< messages
    bool forward;                        ///< a comes before b
    double count = 0;
  };
  struct CellEnd {
    int edge;
    bool first;  ///< the cell is the edge's a
    bool later;  ///< the other end comes later in the order
  };
  struct Cell {
    std::vector<double> unary;
    std::vector<CellEnd> ends;
    double weight;  ///< share of its costs that each pair on the busier side gets
  };

  Edge make_edge(const Network::Pair& pair) {
    int turned = network_.store().turned(pair.table, network_.domain(pair.a));
    return {doubles(pair.table),
            doubles(turned),
            std::vector<double>(network_.domain(pair.a), 0),
            std::vector<double>(network_.domain(pair.b), 0),
            false,
            0};
  }

  const double* doubles(int table) {
    auto [it, fresh] = tables_.try_emplace(table);
    if (fresh) it->second = as_double(network_.store()[table]);
    return it->second.data();
  }

  static std::vector<double> as_double(const Table& table) {
    std::vector<double> out;
    for (Picoseconds cost : table) out.push_back(cost >= forbidden ? infinite : double(cost));
    return out;
  }

  /// Makes the least entry 0 and returns what it was.
  static Picoseconds lift(Table* table) {
    Picoseconds least = *std::min_element(table->begin(), table->end());
    HETSYNTH_CHECK(least < forbidden, "a table without a possible entry");
    for (Picoseconds& cost : *table)
      if (cost < forbidden) cost -= least;
    return least;
  }

  std::vector<double> belief(const Cell& cell) const {
    std::vector<double> total = cell.unary;
    for (const CellEnd& end : cell.ends) {
      const auto& incoming = end.first ? edges_[end.edge].into_a : edges_[end.edge].into_b;
      for (size_t x = 0; x < total.size(); ++x) total[x] += incoming[x];
    }
    return total;
  }

  /// One sweep; the return value grows with the bound.
  double pass(bool forward) {
    double bound = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      int c = order_[forward ? k : order_.size() - 1 - k];
      const Cell& cell = cells_[c];
      std::vector<double> total = belief(cell);
      double least = *std::min_element(total.begin(), total.end());
      bound += least * colouring_.count[c];
      for (double& t : total) t = (t - least) * cell.weight;
      for (const CellEnd& end : cell.ends)
        if (end.later == forward) bound += send(end, total) * colouring_.count[c];
    }
    return bound;
  }

  /// Minimum over the sender of what it knows and the pair's cost; its least entry is taken out and returned.
  double send(const CellEnd& end, const std::vector<double>& weighted) {
    Edge& edge = edges_[end.edge];
    const auto& back = end.first ? edge.into_a : edge.into_b;
    auto& message = end.first ? edge.into_b : edge.into_a;
    const double* costs = end.first ? edge.costs : edge.turned;
    size_t columns = message.size();
    scratch_.assign(columns, infinite);
    for (size_t x = 0; x < weighted.size(); ++x) {
      double base = weighted[x] - back[x];
      const double* row = costs + x * columns;
      for (size_t y = 0; y < columns; ++y) scratch_[y] = std::min(scratch_[y], base + row[y]);
    }
    double least = *std::min_element(scratch_.begin(), scratch_.end());
    for (size_t y = 0; y < columns; ++y) message[y] = scratch_[y] - least;
    return least;
  }

  /// In order, each variable takes what is cheapest given the earlier ones and the messages of the later ones; then
  /// single changes.
  std::vector<int> decode() const {
    std::vector<int> order(network_.variable_count()), assignment(network_.variable_count(), -1);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(network_.position(a), a) < std::pair(network_.position(b), b); });
    for (bool improving : {false, true, true})
      for (int v : order) {
        std::vector<double> total = cells_[colouring_.colour[v]].unary;
        for (const Network::End& end : network_.ends(v)) {
          const Edge& edge = edges_[edge_of_pair_[end.pair]];
          const auto& incoming = end.first ? edge.into_a : edge.into_b;
          int other = assignment[end.other];
          bool later = edge.forward == end.first;
          const double* row =
              other < 0 ? nullptr : (end.first ? edge.turned : edge.costs) + size_t(other) * total.size();
          for (size_t x = 0; x < total.size(); ++x) total[x] += !row || (!improving && later) ? incoming[x] : row[x];
        }
        assignment[v] = int(std::min_element(total.begin(), total.end()) - total.begin());
      }
    if (network_.cost(assignment) >= forbidden) return {};
    return assignment;
  }

  const Network& network_;
  const Colouring& colouring_;
  std::vector<int> order_;  ///< of the cells
  std::vector<Cell> cells_;
  std::unordered_map<int, std::vector<double>> tables_;  ///< by number in the network's store
  std::vector<Edge> edges_;
  std::vector<int> edge_of_pair_;
  std::vector<double> scratch_;
  double reached_ = -infinite;  ///< best bound of a sweep
  int since_gain_ = 0;          ///< sweeps since
};

std::vector<int> ranks(const Network& network) {
  std::vector<int> order(network.variable_count()), rank(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::pair(network.position(a), a) < std::pair(network.position(b), b); });
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = int(i);
  return rank;
}

}  // namespace

struct Reparametrisation::Messages {
  Messages(const Network& network, const Stop& stop)
      : stop(stop), rank(ranks(network)), single(every_variable(network)), all(network, rank, single) {
    Colouring tied = colour(network, rank, colour_rounds);
    if (tied.representative.size() * 4 >= single.representative.size() * 3) return;  // hardly anything repeats
    MessagePassing few(network, rank, tied);
    few.run(stop, tied_sweeps);
    all.begin_with(few);
  }
  const Stop& stop;
  std::vector<int> rank;
  Colouring single;
  MessagePassing all;
};

Reparametrisation::Reparametrisation(const Network& network, const Stop& stop)
    : messages_(std::make_unique<Messages>(network, stop)) {}
Reparametrisation::~Reparametrisation() = default;
bool Reparametrisation::improve(int sweeps) { return messages_->all.run(messages_->stop, sweeps); }
Reparametrised Reparametrisation::apply() const { return messages_->all.apply(); }

namespace {

/// Arc consistency under a budget, to a fixed point.
class Pruning {
 public:
  Pruning(const Network& network, Picoseconds budget)
      : network_(network), budget_(budget), values_(network.variable_count()), queued_(values_.size(), 0) {
    for (int v = 0; v < network.variable_count(); ++v) {
      values_[v].resize(network.domain(v));
      std::iota(values_[v].begin(), values_[v].end(), 0);
      excess_.push_back(network.unary(v));
      if (std::any_of(excess_[v].begin(), excess_[v].end(), [&](Picoseconds e) { return e > budget; })) push(v);
    }
    for (const Network::Pair& pair : network.pairs()) {
      least_.push_back({Table(network.domain(pair.a), 0), Table(network.domain(pair.b), 0)});
      push(pair.a), push(pair.b);
    }
    for (size_t p = 0; p < least_.size(); ++p) tighten(int(p), true), tighten(int(p), false);
  }

  ValueLists run() {
    while (!queue_.empty()) {
      int v = queue_.back();
      queue_.pop_back();
      queued_[v] = 0;
      if (std::erase_if(values_[v], [&](int x) { return excess_[v][x] > budget_; }) == 0) continue;
      if (values_[v].empty()) break;
      for (const Network::End& end : network_.ends(v)) tighten(end.pair, !end.first);
    }
    return std::move(values_);
  }

 private:
  void push(int v) {
    if (!queued_[v]) queue_.push_back(v);
    queued_[v] = 1;
  }

  /// What the pair must cost at least beside each value of one of its ends.
  void tighten(int p, bool of_first) {
    const Network::Pair& pair = network_.pairs()[p];
    const Table& table = network_.table(pair);
    int own = of_first ? pair.a : pair.b, other = of_first ? pair.b : pair.a;
    size_t columns = size_t(network_.domain(pair.b));
    Table& known = of_first ? least_[p].first : least_[p].second;
    for (int x : values_[own]) {
      Picoseconds least = forbidden;
      for (int y : values_[other])
        least =
            std::min(least, of_first ? table[size_t(x) * columns + size_t(y)] : table[size_t(y) * columns + size_t(x)]);
      if (least == known[x]) continue;
      excess_[own][x] = add(excess_[own][x], least - known[x]);
      known[x] = least;
      if (excess_[own][x] > budget_) push(own);
    }
  }

  const Network& network_;
  Picoseconds budget_;
  ValueLists values_;
  std::vector<Table> excess_;                   ///< by variable and value: its own cost and what its pairs add
  std::vector<std::pair<Table, Table>> least_;  ///< by pair: for each value of either end
  std::vector<int> queue_;
  std::vector<char> queued_;
};

}  // namespace

ValueLists values_within(const Network& network, Picoseconds budget) {
  return Pruning(network, std::min(budget, forbidden - 1)).run();
}

}  // namespace hetsynth::synth
