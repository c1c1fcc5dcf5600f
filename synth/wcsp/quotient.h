// A network seen through what repeats in it: variables that look alike from near by are one cell, pairs that look alike
// one edge. Messages, bounds and pruning of a deep program then cost no more than those of a few of its layers.
#pragma once
#include <array>

#include "synth/wcsp/network.h"

namespace hetsynth::synth {

/// A partition by colour refinement. All variables of a cell have the same domain and costs and, edge by edge, equally
/// many ends of it: what is the same for all pairs of an edge can be added up for all variables of a cell at once.
struct Quotient {
  struct Cell {
    int example;  ///< the first of its variables in the order of positions
    int count;
    size_t ends_begin, ends_end;
  };
  /// One end of a pair of the cell's example.
  struct End {
    int edge;
    bool first;  ///< the pair's a
    bool later;  ///< the other end comes later in the order of positions
    bool
        is_representative;  ///< of all cells at this end of the edge, this one decides on what is told to the other end
  };
  struct Edge {
    int table;                              ///< [value of a][value of b]
    int rows, columns;                      ///< domains of a and b
    int count;                              ///< pairs
    bool forward;                           ///< a comes before b
    std::array<std::vector<int>, 2> cells;  ///< at the ends: [0] of the pairs' a
  };
  std::vector<int> order;    ///< the variables by position
  std::vector<int> cell_of;  ///< by variable
  std::vector<int> edge_of;  ///< by pair
  std::vector<Cell> cells;   ///< in the order of their examples' positions
  std::vector<End> ends;     ///< cell by cell
  std::vector<Edge> edges;
};

/// `rounds` of refinement, at least one: from how far variables are told apart. Parts that repeat are told apart this
/// near to where they end.
Quotient quotient(const Network& network, int rounds);

/// Every variable a cell of its own.
Quotient every_variable(const Network& network);

}  // namespace hetsynth::synth
