#include "dsl/spmd/nested_cut.h"

#include <fmt/format.h>

#include <map>

namespace hetsynth {
namespace {

/// Whether two lists of bounds divide alike, each in units of its own extent.
bool alike(const std::vector<int64_t>& a, int64_t extent_a, const std::vector<int64_t>& b, int64_t extent_b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = static_cast<__int128>(a[i]) * extent_b == static_cast<__int128>(b[i]) * extent_a;
  return same;
}

}  // namespace

bool nests(const BoundaryTable& table) {
  // Of one row both would be the same.
  if (table.by < 0 || table.rows.size() < 2) return false;
  int64_t at = 0;
  for (const std::vector<int64_t>& row : table.rows) {
    if (row.empty() || row.front() != at) return false;
    at = row.back();
  }
  return at == table.extent;
}

std::vector<int64_t> outer_bounds(const BoundaryTable& table) {
  std::vector<int64_t> bounds{0};
  for (const std::vector<int64_t>& row : table.rows) bounds.push_back(row.back());
  return bounds;
}

std::string why_not_cut_by(const SpmdProgram& program, const std::vector<int>& tables) {
  std::vector<const BoundaryTable*> cuts;
  for (int table : tables)
    if (table >= 0) cuts.push_back(&program.tables.at(size_t(table)));
  if (cuts.empty()) return "";
  const BoundaryTable& inner = *cuts.back();
  const auto axis = [&](int a) { return program.mesh.axes.at(size_t(a)).name; };
  if (cuts.size() == 1 && nests(inner))
    return fmt::format("table {} divides parts over axis {}, which does not cut it", inner.name, axis(inner.by));
  if (cuts.size() == 1) return "";
  const BoundaryTable& outer = *cuts.front();
  if (cuts.size() > 2) return fmt::format("{} axes cut it: two can", cuts.size());
  if (!nests(inner) || inner.by != outer.axis)
    return fmt::format("axis {} and axis {} both cut it, and table {} does not divide the parts over axis {}",
                       axis(outer.axis), axis(inner.axis), inner.name, axis(outer.axis));
  if (outer.by >= 0)
    return fmt::format("table {} divides parts of table {}, which differ along axis {}", inner.name, outer.name,
                       axis(outer.by));
  if (!alike(outer_bounds(inner), inner.extent, outer.bounds, outer.extent))
    return fmt::format("the rows of table {} are not the parts of table {}", inner.name, outer.name);
  return "";
}

namespace {

/// By thing that is cut: the tables that cut it, by mesh axis.
using CutThings = std::map<int, std::vector<int>>;

void note(CutThings& things, int thing, size_t axis, size_t axes, int table) {
  things.try_emplace(thing, axes, -1).first->second[axis] = table;
}

}  // namespace

std::string why_not_held(const SpmdProgram& program, const Placements& placements) {
  CutThings dims;
  for (size_t a = 0; a < placements.size(); ++a)
    if (placements[a].kind == Placement::Kind::sharded)
      note(dims, placements[a].dim, a, placements.size(), placements[a].table);
  for (const auto& [dim, tables] : dims)
    if (const std::string why = why_not_cut_by(program, tables); !why.empty())
      return fmt::format("dimension {} cannot be cut so: {}", dim, why);
  return "";
}

std::string why_not_divided(const SpmdProgram& program, const std::vector<Factor>& factors,
                            const std::vector<Split>& splits) {
  CutThings divided;
  for (size_t a = 0; a < splits.size(); ++a)
    if (splits[a].factor >= 0) note(divided, splits[a].factor, a, splits.size(), splits[a].table);
  for (const auto& [factor, tables] : divided)
    if (const std::string why = why_not_cut_by(program, tables); !why.empty())
      return fmt::format("factor {} cannot be divided so: {}", factors.at(size_t(factor)).name, why);
  return "";
}

}  // namespace hetsynth
