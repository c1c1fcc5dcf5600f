#include "tests/attack/tables.h"

#include <algorithm>
#include <set>

namespace hetsynth::attack {
namespace {

using Bounds = std::vector<int64_t>;

/// From lo to hi; a fifth of the draws lets one device have everything.
Bounds random_bounds(Random& random, int64_t lo, int64_t hi, int devices) {
  Bounds bounds{lo};
  const bool crowded = chance(random, 20), even = chance(random, 15);
  for (int i = 1; i < devices; ++i) {
    const int64_t inside = crowded ? (chance(random, 50) ? 0 : hi - lo) : below(random, hi - lo + 1);
    bounds.push_back(lo + (even ? (hi - lo) * i / devices : inside));
  }
  bounds.push_back(hi);
  std::ranges::sort(bounds);
  return bounds;
}

std::set<int64_t> extents_of(const Program& program) {
  std::set<int64_t> extents;
  for (const Node& node : program.nodes) {
    extents.insert(node.type.shape.begin(), node.type.shape.end());
    for (const Factor& f : node.space.factors) extents.insert(f.size);
  }
  extents.erase(0);
  return extents;
}

class TableMaker {
 public:
  TableMaker(Random& random, const Mesh& mesh) : random_(random), mesh_(mesh) {}

  void add(int axis, int64_t extent) {
    const int64_t unit = chance(random_, 10) ? divisor(extent) : 1;
    BoundaryTable table{.name = "", .axis = axis, .extent = extent / unit};
    const int devices = mesh_.axes[size_t(axis)].size, other = other_axis(axis);
    if (other >= 0 && other < axis && chance(random_, 35) && nested(table, other)) return take(std::move(table));
    if (other >= 0 && chance(random_, 45)) {
      table.by = other;
      const bool equal = chance(random_, 15);
      for (int row = 0; row < mesh_.axes[size_t(other)].size; ++row)
        table.rows.push_back(equal && row > 0 ? table.rows[0] : random_bounds(random_, 0, table.extent, devices));
    } else {
      table.bounds = random_bounds(random_, 0, table.extent, devices);
    }
    take(std::move(table));
  }

  std::vector<BoundaryTable> tables;

 private:
  void take(BoundaryTable table) {
    table.name = "T" + std::to_string(tables.size());
    tables.push_back(table);
    if (!chance(random_, 8)) return;
    table.name = "T" + std::to_string(tables.size());  // the same cut, in units half as large
    table.extent *= 2;
    for (int64_t& bound : table.bounds) bound *= 2;
    for (Bounds& row : table.rows)
      for (int64_t& bound : row) bound *= 2;
    tables.push_back(std::move(table));
  }

  int64_t divisor(int64_t of) {
    const int64_t d = 1 + below(random_, of);
    return of % d == 0 ? d : 1;
  }

  /// -1: there is but one.
  int other_axis(int axis) {
    if (mesh_.axes.size() < 2) return -1;
    const int other = int(below(random_, int64_t(mesh_.axes.size()) - 1));
    return other + (other >= axis);
  }

  /// Rows that divide the parts of a table of the outer axis, in its units or smaller ones; false if there is none.
  bool nested(BoundaryTable& table, int outer) {
    std::vector<const BoundaryTable*> fit;
    for (const BoundaryTable& t : tables)
      if (t.axis == outer && t.by < 0 && table.extent % t.extent == 0) fit.push_back(&t);
    if (fit.empty()) return false;
    const BoundaryTable& parts = *any_of(random_, fit);
    const int64_t units = table.extent / parts.extent;
    table.by = outer;
    for (size_t j = 0; j + 1 < parts.bounds.size(); ++j)
      table.rows.push_back(random_bounds(random_, units * parts.bounds[j], units * parts.bounds[j + 1],
                                         mesh_.axes[size_t(table.axis)].size));
    return true;
  }

  Random& random_;
  const Mesh& mesh_;
};

}  // namespace

Mesh random_mesh(Random& random) {
  Mesh mesh;
  const int64_t axes = 1 + (below(random, 10) + 2) / 4;  // mostly two
  const char* names[] = {"a", "b", "c"};
  for (int64_t a = 0; a < axes; ++a) {
    const int sizes[] = {1, 2, 2, 2, 3, 3, 4};
    mesh.axes.push_back({names[a], sizes[below(random, 7)]});
  }
  while (mesh.device_count() > 12) --std::ranges::max_element(mesh.axes, {}, &Mesh::Axis::size)->size;
  return mesh;
}

std::vector<BoundaryTable> random_tables(Random& random, const Program& program, const Mesh& mesh) {
  TableMaker maker(random, mesh);
  const std::set<int64_t> extents = extents_of(program);
  const int64_t each = extents.size() > 6 ? 2 : 3;
  for (int axis = 0; axis < int(mesh.axes.size()); ++axis)
    for (int64_t extent : extents)
      for (int64_t count = 1 + below(random, each); count > 0; --count) maker.add(axis, extent);
  if (chance(random, 30)) std::ranges::shuffle(maker.tables, random);  // a plan may list them in any order
  return std::move(maker.tables);
}

}  // namespace hetsynth::attack
