#include "synth/wcsp/pruning.h"

#include <algorithm>
#include <numeric>

#include "synth/support/function_multiversioning.h"

namespace hetsynth::synth {
namespace {

/// Of so many rows and columns with what has been moved to them: the least of each.
HETSYNTH_AVX2_TOO void least_moved(const MovedTable& table, size_t rows, size_t columns, Picoseconds* __restrict of_row,
                                   Picoseconds* __restrict of_column) {
  std::fill(of_column, of_column + columns, forbidden);
  const Picoseconds* entry = table.table->data();
  for (size_t x = 0; x < rows; ++x, entry += columns) {
    const Picoseconds moved_to_row = table.by_row[x] - table.less;
    Picoseconds least = forbidden;
    for (size_t y = 0; y < columns; ++y) {
      const Picoseconds cost = entry[y] < forbidden ? entry[y] + moved_to_row + table.by_column[y] : forbidden;
      least = cost < least ? cost : least;
      of_column[y] = cost < of_column[y] ? cost : of_column[y];
    }
    of_row[x] = least;
  }
}

/// Arc consistency under a budget.
class Pruning {
 public:
  Pruning(const Quotient& quotient, const Reparametrised& costs, Picoseconds budget)
      : quotient_(quotient), costs_(costs), budget_(budget), sides_(quotient.edges.size()) {
    for (const Table& unary : costs.cells) {
      values_.emplace_back(unary.size());
      std::iota(values_.back().begin(), values_.back().end(), 0);
      excess_.push_back(unary);
    }
    for (size_t e = 0; e < quotient.edges.size(); ++e)
      for (size_t side : {0, 1}) {
        const int domain = side == 0 ? quotient.edges[e].rows : quotient.edges[e].columns;
        sides_[e][side].least.assign(size_t(domain), 0);
        sides_[e][side].values.resize(size_t(domain));
        std::iota(sides_[e][side].values.begin(), sides_[e][side].values.end(), 0);
      }
    for (size_t c = 0; c < quotient.cells.size(); ++c)
      for (size_t i = quotient.cells[c].ends_begin; i < quotient.cells[c].ends_end; ++i) {
        const Quotient::End& end = quotient.ends[i];
        auto& cells = sides_[size_t(end.edge)][!end.first].cells;
        if (!cells.empty() && cells.back().first == int(c))
          ++cells.back().second;
        else
          cells.push_back({int(c), 1});
      }
  }

  ValueLists run() {
    queued_.assign(values_.size(), 1);
    for (size_t c = values_.size(); c-- > 0;) queue_.push_back(int(c));
    for (size_t e = 0; e < sides_.size(); ++e) tighten_all(e);
    while (!queue_.empty()) {
      const size_t c = size_t(queue_.back());
      queue_.pop_back();
      queued_[c] = 0;
      if (std::erase_if(values_[c], [&](int x) { return excess_[c][size_t(x)] > budget_; }) == 0) continue;
      if (values_[c].empty()) break;
      for (size_t i = quotient_.cells[c].ends_begin; i < quotient_.cells[c].ends_end; ++i) {
        const Quotient::End& end = quotient_.ends[i];
        if (gather(size_t(end.edge), !end.first)) tighten(size_t(end.edge), end.first);
      }
    }
    return std::move(values_);
  }

 private:
  /// One end of an edge.
  struct Side {
    std::vector<int> values;                 ///< of all cells there
    Table least;                             ///< what the pair must cost at least beside each value
    std::vector<std::pair<int, int>> cells;  ///< and how many such ends each has
  };

  /// Takes over what is left of the values. False if nothing changed.
  bool gather(size_t e, size_t side) {
    Side& at = sides_[e][side];
    std::vector<char> left(at.least.size(), 0);
    for (auto [cell, ends] : at.cells)
      for (int x : values_[size_t(cell)]) left[size_t(x)] = 1;
    return std::erase_if(at.values, [&](int x) { return !left[size_t(x)]; }) > 0;
  }

  /// While all values are left.
  void tighten_all(size_t e) {
    const size_t rows = size_t(quotient_.edges[e].rows), columns = size_t(quotient_.edges[e].columns);
    of_row_.resize(rows), of_column_.resize(columns);
    least_moved(costs_.edge(e), rows, columns, of_row_.data(), of_column_.data());
    for (size_t x = 0; x < rows; ++x) raise(e, 0, x, of_row_[x]);
    for (size_t y = 0; y < columns; ++y) raise(e, 1, y, of_column_[y]);
  }

  void tighten(size_t e, size_t side) {
    const MovedTable table = costs_.edge(e);
    const size_t columns = size_t(quotient_.edges[e].columns);
    for (int x : sides_[e][side].values) {
      Picoseconds least = forbidden;
      if (side == 0)
        for (int y : sides_[e][1].values) least = std::min(least, table.at(size_t(x), size_t(y), columns));
      else
        for (int y : sides_[e][0].values) least = std::min(least, table.at(size_t(y), size_t(x), columns));
      raise(e, side, size_t(x), least);
    }
  }

  /// What the pair must cost at least beside a value.
  void raise(size_t e, size_t side, size_t x, Picoseconds least) {
    Side& at = sides_[e][side];
    Picoseconds& known = at.least[x];
    if (least == known) return;
    for (auto [cell, ends] : at.cells) {
      Picoseconds& excess = excess_[size_t(cell)][x];
      for (int i = 0; i < ends; ++i) excess = add(excess, least - known);
      if (excess > budget_ && !queued_[size_t(cell)]) queued_[size_t(cell)] = 1, queue_.push_back(cell);
    }
    known = least;
  }

  const Quotient& quotient_;
  const Reparametrised& costs_;
  Picoseconds budget_;
  std::vector<std::array<Side, 2>> sides_;  ///< by edge
  ValueLists values_;                       ///< by cell
  std::vector<Table> excess_;               ///< by cell and value: its own cost and what its pairs add
  std::vector<int> queue_;
  std::vector<char> queued_;
  std::vector<Picoseconds> of_row_, of_column_;  ///< scratch
};

}  // namespace

ValueLists values_within(const Quotient& quotient, const Reparametrised& costs, Picoseconds budget) {
  return Pruning(quotient, costs, std::min(budget, forbidden - 1)).run();
}

Network restrict(const Network& network, const Quotient& quotient, const Reparametrised& costs,
                 const NumberedLists& values) {
  const int cells = int(quotient.cells.size());
  return restrict(
      network, values,
      [&](int variable) {
        const int cell = quotient.cell_of[size_t(variable)];
        return NumberedTable{{&costs.cells[size_t(cell)]}, cell};
      },
      [&](size_t pair) {
        const int edge = quotient.edge_of[pair];
        return NumberedTable{costs.edge(size_t(edge)), cells + edge};
      });
}

NumberedLists spread(const Quotient& quotient, const ValueLists& by_cell) {
  NumberedLists out;
  std::vector<int> number;
  number.reserve(by_cell.size());
  for (const std::vector<int>& list : by_cell) number.push_back(out.lists.number(list));
  out.of.reserve(quotient.cell_of.size());
  for (int cell : quotient.cell_of) out.of.push_back(number[size_t(cell)]);
  return out;
}

}  // namespace hetsynth::synth
