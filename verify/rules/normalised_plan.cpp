#include "verify/rules/normalised_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "dsl/spmd/hosts.h"
#include "dsl/spmd/nested_cut.h"
#include "dsl/spmd/plan_text.h"
#include "verify/rules/same_tensor.h"

namespace hetsynth {

Subject make_subject(const Program& reference, const SpmdProgram& program) {
  Subject subject{reference, program, {}, {}, same_tensors(reference)};
  std::map<std::tuple<int, int, std::vector<std::vector<int64_t>>>, int> seen;
  for (size_t t = 0; t < program.tables.size(); ++t) {
    const BoundaryTable& table = program.tables[t];
    const int by = varies_along(table);
    std::vector<std::vector<int64_t>> rows{table.by < 0 ? table.bounds : table.rows[0]};
    if (by >= 0) rows = table.rows;
    int64_t unit = 0;
    for (const std::vector<int64_t>& row : rows)
      for (int64_t bound : row) unit = std::gcd(unit, bound);
    for (std::vector<int64_t>& row : rows)
      for (int64_t& bound : row) bound /= unit;
    subject.parts.push_back(table.extent / unit);
    subject.table_of.push_back(seen.try_emplace({table.axis, by, std::move(rows)}, int(t)).first->second);
  }
  return subject;
}

std::optional<ReduceOp> Held::open_reduction() const {
  for (const Placement& p : placements)
    if (p.kind == Placement::Kind::partial) return p.reduce;
  return std::nullopt;
}

void settle(const Subject& subject, Held& held) {
  if (!held.open_reduction()) held.varying.clear();
  std::erase_if(held.varying, [&](int a) {
    const Placement::Kind kind = held.placements[size_t(a)].kind;
    return subject.trivial(a) || kind == Placement::Kind::partial || kind == Placement::Kind::stage;
  });
}

std::string owners_differ(const Subject& subject, const Held& held) {
  const auto at = [&](int a) -> const Placement& { return held.placements[size_t(a)]; };
  const auto cuts = [&](int a) { return at(a).kind == Placement::Kind::sharded; };
  for (int a : held.varying) {
    if (!cuts(a)) continue;
    const std::string& tensor = subject.node(held.node).name;
    if (at(a).overlaps())
      return fmt::format("the summands of {} differ along axis {}, over which its parts overlap", tensor,
                         subject.axis(a).name);
    // Who owns an element along an axis is told by its table, and by who owns it along the axis that this varies along.
    int on = a;
    for (int steps = 0; on >= 0 && cuts(on) && steps <= subject.axis_count(); ++steps)
      on = varies_along(subject.program.tables.at(size_t(at(on).table)));
    if (on >= 0 && at(on).kind == Placement::Kind::partial)
      return fmt::format("the summands of {} over axis {} differ along axis {}, and table {} cuts them differently",
                         tensor, subject.axis(on).name, subject.axis(a).name,
                         subject.program.tables.at(size_t(at(a).table)).name);
  }
  return "";
}

std::set<int> axes_of_stages(const SpmdProgram& program) {
  std::set<int> out;
  for (const Value& value : program.values)
    for (size_t a = 0; a < value.placements.size(); ++a)
      if (value.placements[a].kind == Placement::Kind::stage) out.insert(int(a));
  for (const Instruction& i : program.instructions) {
    for (size_t a = 0; a < i.splits.size(); ++a)
      if (i.splits[a].stage >= 0) out.insert(int(a));
    if (i.opcode == Opcode::send) out.insert(i.axis);
  }
  return out;
}

std::string circular(const SpmdProgram& program, const std::vector<int>& tables) {
  // What an axis cuts is known once the coordinate is that its table varies along: a chain of such axes has to end.
  for (size_t a = 0; a < tables.size(); ++a) {
    int at = int(a);
    for (size_t steps = 0; at >= 0 && tables[size_t(at)] >= 0; ++steps) {
      if (steps > tables.size())
        return fmt::format("the parts do not cover it: how axis {} cuts depends on how other axes do, and these on it",
                           program.mesh.axes[size_t(at)].name);
      at = varies_along(program.tables.at(size_t(tables[size_t(at)])));
    }
  }
  return "";
}

Placements normalised(const Subject& subject, Placements placements) {
  for (int a = 0; a < int(placements.size()); ++a) {
    Placement& p = placements[a];
    if (subject.trivial(a) || p.kind == Placement::Kind::replicated)
      p = Placement::replicated();
    else if (p.kind == Placement::Kind::stage)
      p = Placement::stage(p.at);
    else if (p.kind == Placement::Kind::sharded)
      p = Placement::overlapping(p.dim, subject.table_of.at(p.table), p.before, p.after);
    else
      p = Placement::partial(p.reduce);
  }
  return placements;
}

std::string uncuttable(const Subject& subject, const Shape& shape, int dim, int table) {
  if (!below(dim, shape.size())) return fmt::format("there is no dimension {} to cut", dim);
  const BoundaryTable& t = subject.program.tables.at(table);
  if (shape[dim] % t.extent == 0) return "";
  return fmt::format("table {} of {} units does not divide dimension {} of {} elements", t.name, t.extent, dim,
                     shape[dim]);
}

std::string unfit(const Subject& subject, const Shape& shape, const Placements& placements) {
  std::vector<int> tables(placements.size(), -1);
  std::optional<ReduceOp> reduce;
  for (int a = 0; a < int(placements.size()); ++a) {
    const Placement& p = placements[a];
    if (p.kind == Placement::Kind::partial) {
      if (p.reduce != ReduceOp::sum && p.reduce != ReduceOp::max) return "partial values are sums or maxima";
      if (reduce && *reduce != p.reduce) return "sums and maxima are left open together";
      reduce = p.reduce;
    } else if (p.kind == Placement::Kind::sharded) {
      const BoundaryTable& table = subject.program.tables.at(p.table);
      if (!below(p.dim, shape.size())) return fmt::format("there is no dimension {} to cut", p.dim);
      if (table.axis != a)
        return fmt::format("table {} belongs to axis {}, not {}", table.name, subject.axis(table.axis).name,
                           subject.axis(a).name);
      tables[size_t(a)] = p.table;
    } else if (p.kind == Placement::Kind::stage && !below(p.at, size_t(subject.axis(a).size))) {
      return fmt::format("axis {} has no stage {}", subject.axis(a).name, p.at);
    }
  }
  if (const std::string why = why_not_held(subject.program, placements); !why.empty()) return why;
  return circular(subject.program, tables);
}

std::string describe(const Subject& subject, const Placement& placement, int axis) {
  const std::string& over = subject.axis(axis).name;
  switch (placement.kind) {
    case Placement::Kind::replicated:
      return "replicated over axis " + over;
    case Placement::Kind::sharded:
      return fmt::format("cut in dimension {} by table {} over axis {}{}", placement.dim,
                         subject.program.tables.at(placement.table).name, over,
                         placement.overlaps() ? fmt::format(" with {} elements before each part and {} after",
                                                            placement.before, placement.after)
                                              : "");
    case Placement::Kind::partial:
      return fmt::format("partial({}) over axis {}", name(placement.reduce), over);
    case Placement::Kind::stage:
      return fmt::format("held by stage {} of axis {} alone", placement.at, over);
  }
  return "";
}

}  // namespace hetsynth
