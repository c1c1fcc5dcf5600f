#include "dsl/spmd/nested_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

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

int varies_along(const BoundaryTable& table) {
  const bool alike = std::ranges::all_of(table.rows, [&](const auto& row) { return row == table.rows[0]; });
  return alike ? -1 : table.by;
}

const std::vector<int64_t>& common_bounds(const BoundaryTable& table) {
  return table.by < 0 ? table.bounds : table.rows.at(0);
}

std::vector<int64_t> outer_bounds(const BoundaryTable& table) {
  std::vector<int64_t> bounds{0};
  for (const std::vector<int64_t>& row : table.rows) bounds.push_back(row.back());
  return bounds;
}

std::string why_not_cut_by(const SpmdProgram& program, const std::vector<int>& tables) {
  const auto cuts = [](int table) { return table >= 0; };
  const auto count = std::ranges::count_if(tables, cuts);
  if (count == 0) return "";
  const BoundaryTable& outer = program.tables.at(size_t(*std::ranges::find_if(tables, cuts)));
  const BoundaryTable& inner = program.tables.at(size_t(*std::find_if(tables.rbegin(), tables.rend(), cuts)));
  const auto axis = [&](int a) { return program.mesh.axes.at(size_t(a)).name; };
  if (count == 1 && nests(inner))
    return fmt::format("table {} divides parts over axis {}, which does not cut it", inner.name, axis(inner.by));
  if (count == 1) return "";
  if (count > 2) return fmt::format("{} axes cut it: two can", count);
  if (!nests(inner) || inner.by != outer.axis)
    return fmt::format("axis {} and axis {} both cut it, and table {} does not divide the parts over axis {}",
                       axis(outer.axis), axis(inner.axis), inner.name, axis(outer.axis));
  if (const int varies = varies_along(outer); varies >= 0)
    return fmt::format("table {} divides parts of table {}, which differ along axis {}", inner.name, outer.name,
                       axis(varies));
  if (!alike(outer_bounds(inner), inner.extent, common_bounds(outer), outer.extent))
    return fmt::format("the rows of table {} are not the parts of table {}", inner.name, outer.name);
  return "";
}

namespace {

struct Wrong {
  int thing;
  std::string why;
};

/// The first thing that its tables cannot cut together. `thing(a)`, `table(a)`: what axis a cuts, and by what; no
/// thing: -1.
template <typename Thing, typename TableOf>
std::optional<Wrong> first_wrong(const SpmdProgram& program, size_t axes, const Thing& thing, const TableOf& table) {
  std::vector<int> together;
  for (size_t a = 0; a < axes; ++a) {
    if (thing(a) < 0) continue;
    together.assign(axes, -1);
    for (size_t b = 0; b < axes; ++b)
      if (thing(b) == thing(a)) together[b] = table(b);
    if (std::string why = why_not_cut_by(program, together); !why.empty()) return Wrong{thing(a), std::move(why)};
  }
  return std::nullopt;
}

/// Why parts cannot overlap so; empty if they can, or do not.
std::string why_not_overlapping(const SpmdProgram& program, const Placements& placements) {
  for (const Placement& p : placements) {
    if (!p.overlaps()) continue;
    const auto cuts_it = [&](const Placement& other) {
      return other.kind == Placement::Kind::sharded && other.dim == p.dim;
    };
    if (p.before < 0 || p.after < 0) return fmt::format("parts of dimension {} cannot overlap by less than 0", p.dim);
    if (std::ranges::count_if(placements, cuts_it) > 1)
      return fmt::format("parts of dimension {} cannot overlap: two axes cut it", p.dim);
    const BoundaryTable& table = program.tables.at(size_t(p.table));
    if (varies_along(table) >= 0)
      return fmt::format("parts of dimension {} cannot overlap: table {} cuts differently along axis {}", p.dim,
                         table.name, program.mesh.axes.at(size_t(table.by)).name);
  }
  return "";
}

}  // namespace

std::string why_not_held(const SpmdProgram& program, const Placements& placements) {
  if (std::string why = why_not_overlapping(program, placements); !why.empty()) return why;
  const auto wrong = first_wrong(
      program, placements.size(),
      [&](size_t a) { return placements[a].kind == Placement::Kind::sharded ? placements[a].dim : -1; },
      [&](size_t a) { return placements[a].table; });
  return wrong ? fmt::format("dimension {} cannot be cut so: {}", wrong->thing, wrong->why) : "";
}

std::string why_not_divided(const SpmdProgram& program, const std::vector<Factor>& factors,
                            const std::vector<Split>& splits) {
  const auto wrong = first_wrong(
      program, splits.size(), [&](size_t a) { return splits[a].factor; }, [&](size_t a) { return splits[a].table; });
  return wrong ? fmt::format("factor {} cannot be divided so: {}", factors.at(size_t(wrong->thing)).name, wrong->why)
               : "";
}

}  // namespace hetsynth
