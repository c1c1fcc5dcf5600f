#include "tests/theorems/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hetsynth::theorems {
namespace {

/// Boundaries that are like those of no other table.
std::vector<int64_t> bounds(int devices, int number) {
  std::vector<int64_t> out{0};
  for (int i = 1; i < devices; ++i) out.push_back((number + i - 1) % 2 + 1 < i ? extent : (number + i - 1) % 2 + 1);
  for (size_t i = 1; i < out.size(); ++i) out[i] = std::max(out[i], out[i - 1]);
  out.push_back(extent);
  return out;
}

}  // namespace

SpmdProgram plan_with_tables(const std::vector<int>& axes) {
  SpmdProgram plan;
  for (size_t a = 0; a < axes.size(); ++a) plan.mesh.axes.push_back({std::string(1, char('a' + int(a))), axes[a]});
  for (int a = 0; a < int(axes.size()); ++a) {
    const int devices = axes[size_t(a)];
    const auto named = [&](const char* kind, int by) {
      return fmt::format("{}{}{}", kind, char('a' + a), by < 0 ? "" : std::string(1, char('a' + by)));
    };
    plan.tables.push_back({named("rows_", -1), a, extent, bounds(devices, 0)});
    for (int b = 0; b < int(axes.size()); ++b) {
      if (b == a) continue;
      BoundaryTable varying{named("varying_", b), a, extent, {}, b, {}};
      for (int row = 0; row < axes[size_t(b)]; ++row) varying.rows.push_back(bounds(devices, row));
      plan.tables.push_back(varying);
      if (b > a || axes[size_t(b)] < 2) continue;
      BoundaryTable nested{named("nested_", b), a, extent, {}, b, {}};
      const std::vector<int64_t> outer = bounds(axes[size_t(b)], 0);
      for (size_t row = 0; row + 1 < outer.size(); ++row) {
        std::vector<int64_t> parts(size_t(devices) + 1, outer[row]);
        parts.back() = outer[row + 1];
        nested.rows.push_back(parts);
      }
      plan.tables.push_back(nested);
    }
    plan.tables.push_back({named("other_", -1), a, extent, bounds(devices, 1)});
  }
  return plan;
}

std::vector<int> tables_of(const SpmdProgram& plan, int axis) {
  std::vector<int> out;
  for (size_t t = 0; t < plan.tables.size(); ++t)
    if (plan.tables[t].axis == axis) out.push_back(int(t));
  return out;
}

std::vector<Placement> placements_over(const SpmdProgram& plan, int axis, int dims) {
  std::vector<Placement> out{Placement::replicated()};
  if (plan.mesh.axes[size_t(axis)].size == 1) return out;
  std::vector<int> tables = tables_of(plan, axis);
  tables.pop_back();
  for (int dim = 0; dim < dims; ++dim) {
    for (int table : tables) out.push_back(Placement::sharded(dim, table));
    out.push_back(Placement::overlapping(dim, tables[0], 1, 1));
  }
  out.push_back(Placement::partial(ReduceOp::sum));
  out.push_back(Placement::partial(ReduceOp::max));
  for (int at = 0; at < 2; ++at) out.push_back(Placement::stage(at));
  return out;
}

std::vector<Held> all_varying(const Subject& subject, const Held& held) {
  std::vector<Held> out{held};
  if (!held.open_reduction()) return out;
  for (int a = 0; a < subject.axis_count(); ++a) {
    const size_t count = out.size();
    for (size_t i = 0; i < count; ++i) {
      Held more = out[i];
      more.varying.insert(a);
      settle(subject, more);
      if (more.varying.count(a)) out.push_back(more);
    }
  }
  return out;
}

std::vector<Held> all_held(const Subject& subject, NodeId node) {
  const Shape& shape = subject.node(node).type.shape;
  std::vector<Held> out{Held{node, {}}};
  for (int a = 0; a < subject.axis_count(); ++a) {
    std::vector<Held> longer;
    for (const Held& held : out)
      for (const Placement& p : placements_over(subject.program, a, int(shape.size()))) {
        longer.push_back(held);
        longer.back().placements.push_back(p);
      }
    out = std::move(longer);
  }
  std::vector<Held> held;
  for (const Held& h : out)
    if (unfit(subject, shape, h.placements).empty())
      for (Held& varying : all_varying(subject, h))
        if (owners_differ(subject, varying).empty()) held.push_back(std::move(varying));
  return held;
}

std::string text(const Subject& subject, const Held& held) {
  std::vector<std::string> parts;
  for (int a = 0; a < subject.axis_count(); ++a)
    parts.push_back(describe(subject, held.placements[size_t(a)], a) +
                    (held.varying.count(a) ? " (summands vary)" : ""));
  return fmt::format("{} is {}", subject.node(held.node).name, fmt::join(parts, ", "));
}

}  // namespace hetsynth::theorems
