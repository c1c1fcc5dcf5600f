#include "synth/quotient.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dsl/base/error.h"

namespace hetsynth::synth {
namespace {

/// By variable: its place in the order of positions.
std::vector<int> ranks(const Network& network) {
  const std::vector<int> order = network.in_order();
  std::vector<int> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[size_t(order[i])] = int(i);
  return rank;
}

/// One round of colour refinement. `count`: of the new colours.
std::vector<int> refined(const Network& network, const std::vector<int>& rank, const std::vector<int>& colours,
                         int* count) {
  Interner<int> seen;
  std::vector<int> out, key;
  std::vector<std::pair<int, int>> around;
  for (int v = 0; v < network.variable_count(); ++v) {
    around.clear();
    for (const Network::End& end : network.ends(v))
      around.push_back(
          {network.pairs()[size_t(end.pair)].table * 4 + end.first * 2 + (rank[size_t(v)] < rank[size_t(end.other)]),
           colours[size_t(end.other)]});
    std::sort(around.begin(), around.end());
    key.assign({colours[size_t(v)]});
    for (auto [side, other] : around) key.insert(key.end(), {side, other});
    out.push_back(seen.number(key));
  }
  *count = seen.size();
  return out;
}

/// The cell with the most variables: what is told suits most pairs.
void let_one_speak(Quotient* out) {
  for (Quotient::Cell& cell : out->cells)
    for (size_t e = cell.ends_begin; e < cell.ends_end; ++e) {
      Quotient::End& end = out->ends[e];
      const std::vector<int>& cells = out->edges[size_t(end.edge)].cells[!end.first];
      auto fewer = [&](int a, int b) { return out->cells[size_t(a)].count < out->cells[size_t(b)].count; };
      end.speaks = &out->cells[size_t(*std::max_element(cells.begin(), cells.end(), fewer))] == &cell;
    }
}

/// `cells`: of the variables. `sides`: a coarser partition by which pairs are told apart, such that variables of one
/// cell have the same neighbours by it.
Quotient assembled(const Network& network, const std::vector<int>& rank, const std::vector<int>& cells,
                   const std::vector<int>& sides) {
  Quotient out;
  std::vector<int> order(rank.size());
  for (size_t v = 0; v < rank.size(); ++v) order[size_t(rank[v])] = int(v);
  out.cell_of.assign(rank.size(), -1);
  std::vector<int> number(rank.size(), -1);
  for (int v : order) {
    int& cell = number[size_t(cells[size_t(v)])];
    if (cell < 0) {
      cell = int(out.cells.size());
      out.cells.push_back({v, 0, 0, 0});
    }
    ++out.cells[size_t(cell)].count;
    out.cell_of[size_t(v)] = cell;
  }
  Interner<int> edges;
  for (const Network::Pair& pair : network.pairs()) {
    const bool forward = rank[size_t(pair.a)] < rank[size_t(pair.b)];
    const int edge = edges.number({pair.table, sides[size_t(pair.a)], sides[size_t(pair.b)], forward});
    if (edge == int(out.edges.size()))
      out.edges.push_back({pair.table, network.domain(pair.a), network.domain(pair.b), 0, forward, {}});
    ++out.edges[size_t(edge)].count;
    out.edge_of.push_back(edge);
    out.edges[size_t(edge)].cells[0].push_back(out.cell_of[size_t(pair.a)]);
    out.edges[size_t(edge)].cells[1].push_back(out.cell_of[size_t(pair.b)]);
  }
  for (Quotient::Edge& edge : out.edges)
    for (std::vector<int>& at : edge.cells) {
      std::sort(at.begin(), at.end());
      at.erase(std::unique(at.begin(), at.end()), at.end());
    }
  for (Quotient::Cell& cell : out.cells) {
    cell.ends_begin = out.ends.size();
    for (const Network::End& end : network.ends(cell.example))
      out.ends.push_back(
          {out.edge_of[size_t(end.pair)], end.first, rank[size_t(cell.example)] < rank[size_t(end.other)], false});
    cell.ends_end = out.ends.size();
  }
  let_one_speak(&out);
  return out;
}

}  // namespace

Quotient quotient(const Network& network, int rounds) {
  HETSYNTH_CHECK(rounds > 0, "without refinement neighbours may differ");
  const std::vector<int> rank = ranks(network);
  Interner<int> first;
  std::vector<int> sides, cells;
  for (int v = 0; v < network.variable_count(); ++v) cells.push_back(first.number({network.unary_table(v)}));
  sides = cells;
  int count = first.size();
  for (int round = 0; round < rounds; ++round) {
    const int known = count;
    sides = std::move(cells);
    cells = refined(network, rank, sides, &count);
    if (count == known) break;  // and so it stays
  }
  return assembled(network, rank, cells, sides);
}

Quotient every_variable(const Network& network) {
  std::vector<int> own(size_t(network.variable_count()));
  std::iota(own.begin(), own.end(), 0);
  return assembled(network, ranks(network), own, own);
}

}  // namespace hetsynth::synth
