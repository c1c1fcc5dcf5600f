#include "synth/wcsp/quotient.h"

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

/// Colour refinement. Of what a round parts the part that saw no change keeps its colour, so that a later round looks
/// only at variables beside those that got another: farther and farther in, where layers are told apart by how far they
/// are from the ends of the program.
class Colouring {
 public:
  Colouring(const Network& network, const std::vector<int>& rank) : network_(network) {
    Interner<int> first;
    std::vector<int> key;
    for (int v = 0; v < network.variable_count(); ++v) {
      key.assign({network.unary_table(v)});
      colours_.push_back(first.number(key));
      affected_.push_back(v);
      first_end_.push_back(sides_.size());
      for (const Network::End& end : network.ends(v)) {
        const int table = network.pairs()[size_t(end.pair)].table;
        sides_.push_back(table * 4 + end.first * 2 + (rank[size_t(v)] < rank[size_t(end.other)]));
      }
    }
    members_.assign(size_t(first.size()), 0);
    for (int colour : colours_) ++members_[size_t(colour)];
  }

  const std::vector<int>& colours() const { return colours_; }

  /// One round. False if nothing changed, and so it stays.
  bool refine() {
    // What is beside no change looks as before, like all others of its colour there; what is beside a change does not.
    std::vector<int> unseen = members_;  // by colour
    for (int v : affected_) --unseen[size_t(colours_[size_t(v)])];
    Interner<uint64_t> looks;
    std::vector<int> look_of, colour_of;  // by affected variable; by look: -1: none yet
    for (int v : affected_) look_of.push_back(looks.number(look(v)));
    colour_of.assign(size_t(looks.size()), -1);
    std::vector<std::pair<int, int>> changed;  // variables and their new colours
    for (size_t i = 0; i < affected_.size(); ++i) {
      const int v = affected_[i], own = colours_[size_t(v)];
      int& colour = colour_of[size_t(look_of[i])];
      if (colour < 0) {
        colour = std::exchange(unseen[size_t(own)], 1) == 0 ? own : int(members_.size());
        if (colour != own) members_.push_back(0);
      }
      if (colour != own) changed.push_back({v, colour});
    }
    affected_.clear();
    std::vector<char> listed(colours_.size(), 0);
    for (auto [v, colour] : changed) {
      --members_[size_t(colours_[size_t(v)])];
      ++members_[size_t(colour)];
      colours_[size_t(v)] = colour;
      for (const Network::End& end : network_.ends(v))
        if (!std::exchange(listed[size_t(end.other)], 1)) affected_.push_back(end.other);
    }
    return !changed.empty();
  }

 private:
  /// Its colour and its pairs with the colours at their other ends.
  const std::vector<uint64_t>& look(int v) {
    look_.assign({uint64_t(colours_[size_t(v)])});
    const int* side = sides_.data() + first_end_[size_t(v)];
    for (const Network::End& end : network_.ends(v))
      look_.push_back(PairNumbers::word(*side++, colours_[size_t(end.other)]));
    std::sort(look_.begin() + 1, look_.end());
    return look_;
  }

  const Network& network_;
  std::vector<int> sides_;         ///< end by end: the pair's table, which of its ends, and whether it comes later
  std::vector<size_t> first_end_;  ///< by variable
  std::vector<int> colours_;       ///< by variable
  std::vector<int> members_;       ///< by colour: how many variables
  std::vector<int> affected_;      ///< variables that may look otherwise than before
  std::vector<uint64_t> look_;
};

/// The cell with the most variables: what is told suits most pairs.
void let_one_speak(Quotient* out) {
  for (Quotient::Cell& cell : out->cells)
    for (size_t e = cell.ends_begin; e < cell.ends_end; ++e) {
      Quotient::End& end = out->ends[e];
      const std::vector<int>& cells = out->edges[size_t(end.edge)].cells[!end.first];
      auto fewer = [&](int a, int b) { return out->cells[size_t(a)].count < out->cells[size_t(b)].count; };
      end.is_representative = &out->cells[size_t(*std::max_element(cells.begin(), cells.end(), fewer))] == &cell;
    }
}

/// `cells`: of the variables. `sides`: a coarser partition by which pairs are told apart, such that variables of one
/// cell have the same neighbours by it.
Quotient assembled(const Network& network, const std::vector<int>& rank, const std::vector<int>& cells,
                   const std::vector<int>& sides) {
  Quotient out;
  out.order.resize(rank.size());
  for (size_t v = 0; v < rank.size(); ++v) out.order[size_t(rank[v])] = int(v);
  out.cell_of.assign(rank.size(), -1);
  std::vector<int> number(rank.size(), -1);
  for (int v : out.order) {
    int& cell = number[size_t(cells[size_t(v)])];
    if (cell < 0) {
      cell = int(out.cells.size());
      out.cells.push_back({v, 0, 0, 0});
    }
    ++out.cells[size_t(cell)].count;
    out.cell_of[size_t(v)] = cell;
  }
  Interner<int> edges;
  std::vector<int> key;
  out.edge_of.reserve(network.pairs().size());
  for (const Network::Pair& pair : network.pairs()) {
    const bool forward = rank[size_t(pair.a)] < rank[size_t(pair.b)];
    key.assign({pair.table, sides[size_t(pair.a)], sides[size_t(pair.b)], forward});
    const int edge = edges.number(key);
    if (edge == int(out.edges.size()))
      out.edges.push_back({pair.table, network.domain(pair.a), network.domain(pair.b), 0, forward, {}});
    ++out.edges[size_t(edge)].count;
    out.edge_of.push_back(edge);
    for (size_t side : {0, 1}) {  // repeated layers mostly say the same again
      std::vector<int>& at = out.edges[size_t(edge)].cells[side];
      const int cell = out.cell_of[size_t(side == 0 ? pair.a : pair.b)];
      if (at.empty() || at.back() != cell) at.push_back(cell);
    }
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
  Colouring colouring(network, rank);
  std::vector<int> sides;
  bool changed = true;
  for (int round = 0; round < rounds && changed; ++round) {
    sides = colouring.colours();
    changed = colouring.refine();
  }
  return assembled(network, rank, colouring.colours(), sides);
}

Quotient every_variable(const Network& network) {
  std::vector<int> own(size_t(network.variable_count()));
  std::iota(own.begin(), own.end(), 0);
  return assembled(network, ranks(network), own, own);
}

}  // namespace hetsynth::synth
