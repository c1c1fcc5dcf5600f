#include "tests/theorems/tables.h"

#include <fmt/format.h>

#include "dsl/spmd/nested_cut.h"

namespace hetsynth::theorems {

int outer_table(const SpmdProgram& program, int table) {
  const BoundaryTable& inner = program.tables[size_t(table)];
  for (size_t t = 0; t < program.tables.size(); ++t) {
    const BoundaryTable& outer = program.tables[t];
    if (outer.axis == inner.by && outer.by < 0 && outer.extent == inner.extent && outer.bounds == outer_bounds(inner))
      return int(t);
  }
  return -1;
}

int Tables::row_of(int table, int rank) const {
  const int by = varies_along(s_.program.tables[size_t(table)]);
  return by < 0 ? 0 : s_.program.mesh.coordinate(rank, by);
}

void Tables::declare(int table, int row) {
  const BoundaryTable& t = s_.program.tables[size_t(table)];
  const int devices = s_.program.mesh.axes[size_t(t.axis)].size;
  Terms bounds;
  if (nests(t)) {
    const int outer = s_.table_of[size_t(outer_table(s_.program, table))];
    bounds.push_back(in_units(outer, 0, row));
    for (int i = 1; i < devices; ++i) bounds.push_back(solver_.integer_symbol(fmt::format("t{}.{}.{}", table, row, i)));
    bounds.push_back(in_units(outer, 0, row + 1));
  } else {
    bounds.push_back(solver_.integer(0));
    for (int i = 1; i < devices; ++i) bounds.push_back(solver_.integer_symbol(fmt::format("t{}.{}.{}", table, row, i)));
    bounds.push_back(solver_.integer(t.extent));
  }
  for (size_t i = 0; i + 1 < bounds.size(); ++i) facts_.push_back(solver_.less_equal(bounds[i], bounds[i + 1]));
  rows_[{table, row}] = std::move(bounds);
}

smt::Term Tables::in_units(int table, int row, int at) {
  if (!rows_.count({table, row})) declare(table, row);
  return rows_.at({table, row})[size_t(at)];
}

smt::Term Tables::bound(int table, int row, int at, int64_t extent) {
  const int64_t unit = extent / s_.program.tables[size_t(table)].extent;
  const smt::Term units = in_units(table, row, at);
  return unit == 1 ? units : solver_.mul(solver_.integer(unit), units);
}

Interval Tables::part(int table, int64_t extent, int rank) {
  table = s_.table_of[size_t(table)];
  const int row = row_of(table, rank);
  const int at = s_.program.mesh.coordinate(rank, s_.program.tables[size_t(table)].axis);
  return {bound(table, row, at, extent), bound(table, row, at + 1, extent)};
}

Interval Tables::group(int table, int64_t extent, int rank) {
  table = s_.table_of[size_t(table)];
  const int row = row_of(table, rank);
  const int devices = s_.program.mesh.axes[size_t(s_.program.tables[size_t(table)].axis)].size;
  return {bound(table, row, 0, extent), bound(table, row, devices, extent)};
}

}  // namespace hetsynth::theorems
