#include "synth/reparametrise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
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
/// What counts as a gain, relative to the bound.
constexpr double least_gain = 1e-8;

double as_double(Picoseconds cost) { return cost >= forbidden ? infinite : double(cost); }

/// A pair's costs in floating point, rows and columns that are alike kept once: most options of an operation differ in
/// nothing that one neighbour could see.
class CompressedTable {
 public:
  CompressedTable(const Table& table, int rows) {
    const int columns = int(table.size()) / rows;
    row_class_ = classes_of(table, rows, columns, size_t(columns), 1, &row_example_);
    column_class_ = classes_of(table, columns, rows, 1, size_t(columns), &column_example_);
    fill(table, row_example_, column_example_, size_t(columns), 1, &by_row_);
    fill(table, column_example_, row_example_, 1, size_t(columns), &by_column_);
  }

  /// Of one end: the first indexes rows.
  const std::vector<int>& classes(bool first) const { return first ? row_class_ : column_class_; }
  int class_count(bool first) const { return int((first ? row_example_ : column_example_).size()); }
  /// Costs beside one class of values of an end, by class of the other end's values.
  const double* beside(bool first, int value_class) const {
    return (first ? by_row_ : by_column_).data() + size_t(value_class) * padded(class_count(!first));
  }
  static size_t padded(int count) { return (size_t(count) + lanes - 1) / lanes * lanes; }

  /// out[y] = min over x of weights[x] + cost[x][y], x being classes of the sending end. `out` has room for padding.
  void minimum_plus(bool from_first, const double* weights, double* out) const {
    const size_t columns = padded(class_count(!from_first));
    const int rows = class_count(from_first);
    const double* row = beside(from_first, 0);
    std::fill(out, out + columns, infinite);
    for (int x = 0; x < rows; ++x, row += columns)
      for (size_t y = 0; y < columns; y += lanes) {
        Lanes costs, best;
        std::memcpy(&costs, row + y, sizeof costs);
        std::memcpy(&best, out + y, sizeof best);
        costs += weights[x];
        best = costs < best ? costs : best;
        std::memcpy(out + y, &best, sizeof best);
      }
  }

 private:
  static constexpr size_t lanes = 2;  // of the least that x86-64 has
  typedef double Lanes __attribute__((vector_size(lanes * sizeof(double))));

  static std::vector<int> classes_of(const Table& table, int count, int length, size_t stride, size_t step,
                                     std::vector<int>* examples) {
    Interner<Picoseconds> seen;
    std::vector<int> out;
    std::vector<Picoseconds> line(static_cast<size_t>(length));
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < length; ++j) line[size_t(j)] = table[size_t(i) * stride + size_t(j) * step];
      out.push_back(seen.number(line));
      if (out.back() == int(examples->size())) examples->push_back(i);
    }
    return out;
  }

  static void fill(const Table& table, const std::vector<int>& rows, const std::vector<int>& columns, size_t stride,
                   size_t step, std::vector<double>* out) {
    for (int x : rows) {
      for (int y : columns) out->push_back(as_double(table[size_t(x) * stride + size_t(y) * step]));
      out->resize((out->size() + lanes - 1) / lanes * lanes, infinite);
    }
  }

  std::vector<int> row_class_, column_class_, row_example_, column_example_;
  std::vector<double> by_row_, by_column_;  ///< one end's classes by the other's, lines padded
};

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
      if (fresh) edges_.push_back(make_edge(pair, forward));
      edge_of_pair_.push_back(it->second);
    }
    order_.resize(colouring.representative.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::sort(order_.begin(), order_.end(),
              [&](int a, int b) { return rank[colouring.representative[a]] < rank[colouring.representative[b]]; });
    size_t widest = 0;
    for (int v : colouring.representative) {
      Cell cell{unary_.size(), network.unary(v).size(), ends_.size(), 0, 0};
      for (Picoseconds cost : network.unary(v)) unary_.push_back(as_double(cost));
      double later = 0;
      for (const Network::End& end : network.ends(v)) {
        ends_.push_back({edge_of_pair_[end.pair], end.first, rank[v] < rank[end.other]});
        later += ends_.back().later;
      }
      cell.ends_end = ends_.size();
      cell.weight = 1 / std::max({1.0, later, double(cell.ends_end - cell.ends_begin) - later});
      widest = std::max(widest, cell.domain);
      cells_.push_back(cell);
    }
    total_.resize(widest);
    by_class_.resize(widest);
    sent_.resize(CompressedTable::padded(int(widest)));
  }

  /// Begins with the messages of another partition of the same network.
  void begin_with(const MessagePassing& other) {
    for (size_t p = 0; p < edge_of_pair_.size(); ++p) {
      const Edge &to = edges_[edge_of_pair_[p]], &from = other.edges_[other.edge_of_pair_[p]];
      for (bool first : {true, false})
        std::copy_n(other.messages_.data() + from.into(first), to.table->class_count(first),
                    messages_.data() + to.into(first));
    }
  }

  /// False if the bound gains less than 1e-8 of itself in `patience` sweeps, or if stopped. Ends with a forward pass.
  bool run(const Stop& stop, int sweeps) {
    for (int sweep = 0; sweep < sweeps && since_gain_ < patience && !stop.stopped(); ++sweep) {
      double bound = pass(true);
      pass(false);
      if (!(bound <= reached_ + std::abs(reached_) * least_gain))
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
      std::vector<double> total(cell.domain);
      believe(cell, total.data());
      for (const Network::End& end : network_.ends(v)) {
        const Edge& edge = edges_[edge_of_pair_[end.pair]];
        const double* incoming = messages_.data() + edge.into(end.first);
        const std::vector<int>& classes = edge.table->classes(end.first);
        bool later = edge.forward == end.first;
        Table& table = pairs[end.pair];
        size_t rows = cell.domain, columns = table.size() / rows;
        for (size_t x = 0; x < rows; ++x) {
          if (unary[v][x] >= forbidden) continue;
          Picoseconds moved = std::llround((later ? cell.weight * total[x] : 0) - incoming[classes[x]]);
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
    const CompressedTable* table;
    size_t into_a, into_b;  ///< messages to either end, by class of its values
    bool forward;           ///< a comes before b
    size_t into(bool first) const { return first ? into_a : into_b; }
  };
  struct CellEnd {
    int edge;
    bool first;  ///< the cell is the edge's a
    bool later;  ///< the other end comes later in the order
  };
  struct Cell {
    size_t unary, domain;
    size_t ends_begin, ends_end;
    double weight;  ///< share of its costs that each pair on the busier side gets
  };

  Edge make_edge(const Network::Pair& pair, bool forward) {
    auto& table = tables_[{pair.table, network_.domain(pair.a)}];
    if (!table) table = std::make_unique<CompressedTable>(network_.table(pair), network_.domain(pair.a));
    Edge edge{table.get(), messages_.size(), 0, forward};
    messages_.resize(messages_.size() + size_t(table->class_count(true)), 0);
    edge.into_b = messages_.size();
    messages_.resize(messages_.size() + size_t(table->class_count(false)), 0);
    return edge;
  }

  /// Makes the least entry 0 and returns what it was.
  static Picoseconds lift(Table* table) {
    Picoseconds least = *std::min_element(table->begin(), table->end());
    HETSYNTH_CHECK(least < forbidden, "a table without a possible entry");
    for (Picoseconds& cost : *table)
      if (cost < forbidden) cost -= least;
    return least;
  }

  /// A cell's own costs and all that it was told.
  void believe(const Cell& cell, double* total) const {
    std::copy_n(unary_.data() + cell.unary, cell.domain, total);
    for (size_t e = cell.ends_begin; e < cell.ends_end; ++e) {
      const Edge& edge = edges_[ends_[e].edge];
      const double* incoming = messages_.data() + edge.into(ends_[e].first);
      const int* classes = edge.table->classes(ends_[e].first).data();
      for (size_t x = 0; x < cell.domain; ++x) total[x] += incoming[classes[x]];
    }
  }

  /// One sweep; the return value grows with the bound.
  double pass(bool forward) {
    double bound = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      int c = order_[forward ? k : order_.size() - 1 - k];
      const Cell& cell = cells_[c];
      believe(cell, total_.data());
      double least = *std::min_element(total_.data(), total_.data() + cell.domain);
      bound += least * colouring_.count[c];
      for (size_t x = 0; x < cell.domain; ++x) total_[x] = (total_[x] - least) * cell.weight;
      for (size_t e = cell.ends_begin; e < cell.ends_end; ++e)
        if (ends_[e].later == forward) bound += send(ends_[e], cell.domain) * colouring_.count[c];
    }
    return bound;
  }

  /// Minimum over the sender of what it knows (in `total_`) and the pair's cost; its least entry is taken out and
  /// returned.
  double send(const CellEnd& end, size_t domain) {
    const Edge& edge = edges_[end.edge];
    const double* back = messages_.data() + edge.into(end.first);
    double* message = messages_.data() + edge.into(!end.first);
    const int* classes = edge.table->classes(end.first).data();
    const int senders = edge.table->class_count(end.first), receivers = edge.table->class_count(!end.first);
    std::fill_n(by_class_.data(), senders, infinite);
    for (size_t x = 0; x < domain; ++x) by_class_[classes[x]] = std::min(by_class_[classes[x]], total_[x]);
    for (int x = 0; x < senders; ++x) by_class_[x] -= back[x];
    edge.table->minimum_plus(end.first, by_class_.data(), sent_.data());
    double least = *std::min_element(sent_.data(), sent_.data() + receivers);
    for (int y = 0; y < receivers; ++y) message[y] = sent_[y] - least;
    return least;
  }

  /// In order, each variable takes what is cheapest given the earlier ones and the messages of the later ones; then
  /// single changes.
  std::vector<int> decode() const {
    std::vector<int> order(network_.variable_count()), assignment(network_.variable_count(), -1);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(network_.position(a), a) < std::pair(network_.position(b), b); });
    std::vector<double> total;
    for (bool improving : {false, true, true})
      for (int v : order) {
        const Cell& cell = cells_[colouring_.colour[v]];
        total.assign(unary_.begin() + ptrdiff_t(cell.unary), unary_.begin() + ptrdiff_t(cell.unary + cell.domain));
        for (const Network::End& end : network_.ends(v)) {
          const Edge& edge = edges_[edge_of_pair_[end.pair]];
          const std::vector<int>& classes = edge.table->classes(end.first);
          int other = assignment[end.other];
          bool told = other < 0 || (!improving && edge.forward == end.first);
          const double* costs = told ? messages_.data() + edge.into(end.first)
                                     : edge.table->beside(!end.first, edge.table->classes(!end.first)[other]);
          for (size_t x = 0; x < total.size(); ++x) total[x] += costs[classes[x]];
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
  std::vector<CellEnd> ends_;                                               ///< cell by cell
  std::vector<double> unary_;                                               ///< cell by cell
  std::map<std::pair<int, int>, std::unique_ptr<CompressedTable>> tables_;  ///< by number in the store, and rows
  std::vector<Edge> edges_;
  std::vector<double> messages_;  ///< edge by edge, either end
  std::vector<int> edge_of_pair_;
  std::vector<double> total_, by_class_, sent_;  ///< scratch
  double reached_ = -infinite;                   ///< best bound of a sweep
  int since_gain_ = 0;                           ///< sweeps since
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
