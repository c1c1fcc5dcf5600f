#include "dsl/spmd/spmd.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dsl/spmd/nested_cut.h"

namespace hetsynth {

int Mesh::device_count() const {
  int count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

int Mesh::coordinate(int rank, int axis) const {
  for (size_t a = axes.size(); a-- > size_t(axis) + 1;) rank /= axes[a].size;
  return rank % axes[axis].size;
}

std::vector<int> Mesh::group(int rank, int axis) const {
  int stride = 1;
  for (size_t a = size_t(axis) + 1; a < axes.size(); ++a) stride *= axes[a].size;
  int first = rank - coordinate(rank, axis) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < axes[axis].size; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

std::string_view name(Opcode opcode) {
  static constexpr std::string_view names[] = {"compute",    "slice",          "to_partial", "all_gather",
                                               "all_reduce", "reduce_scatter", "all_to_all", "broadcast",
                                               "send",       "halo_exchange"};
  return names[int(opcode)];
}

std::string_view name(ReduceOp reduce) {
  static constexpr std::string_view names[] = {"sum", "max", "average", "min", "product"};
  return names[int(reduce)];
}

bool communicates(Opcode opcode) {
  return opcode != Opcode::compute && opcode != Opcode::slice && opcode != Opcode::to_partial;
}

std::string_view name(Realisation realisation) {
  static constexpr std::string_view names[] = {"native", "padded", "grouped", "hierarchical"};
  return names[int(realisation)];
}

int loop_of(const Program& reference, const SpmdProgram& program, const Instruction& instruction) {
  if (instruction.opcode == Opcode::compute) return reference[instruction.node].loop;
  const Node& moved = reference[program.values[instruction.result].node];
  return stacked_dim(moved.space) >= 0 ? -1 : moved.loop;
}

std::vector<LoopSpan> loop_spans(const Program& reference, const SpmdProgram& program) {
  std::vector<LoopSpan> spans;
  if (reference.loops.empty()) return spans;
  for (int i = 0; i < int(program.instructions.size()); ++i) {
    const int loop = loop_of(reference, program, program.instructions[i]);
    if (loop < 0) continue;
    if (!spans.empty() && spans.back().loop == loop && spans.back().last == i)
      spans.back().last = i + 1;
    else
      spans.push_back({loop, i, i + 1});
  }
  return spans;
}

int64_t unit_of(const BoundaryTable& table, int64_t extent) {
  if (table.extent < 1 || extent % table.extent != 0)
    throw UserError({.tag = "table " + table.name,
                     .message = "the table does not fit the dimension it cuts",
                     .expected = fmt::format("an extent that is a multiple of {}", table.extent),
                     .found = fmt::format("{}", extent)});
  return extent / table.extent;
}

std::vector<int64_t> bounds_in_elements(const SpmdProgram& program, int table, int64_t extent, int rank) {
  const BoundaryTable& t = program.tables.at(size_t(table));
  const int64_t unit = unit_of(t, extent);
  std::vector<int64_t> out;
  const std::vector<int64_t>& bounds = t.bounds_of(program.mesh, rank);
  for (int64_t bound : bounds) out.push_back((bound - bounds.front()) * unit);
  return out;
}

bool holds(const Mesh& mesh, const Placements& placements, int rank) {
  for (size_t a = 0; a < placements.size(); ++a)
    if (placements[a].kind == Placement::Kind::stage && mesh.coordinate(rank, int(a)) != placements[a].at) return false;
  return true;
}

bool takes_part(const SpmdProgram& program, const Instruction& instruction, int rank) {
  if (instruction.opcode == Opcode::compute) {
    for (size_t a = 0; a < instruction.splits.size(); ++a)
      if (instruction.splits[a].stage >= 0 && program.mesh.coordinate(rank, int(a)) != instruction.splits[a].stage)
        return false;
    return true;
  }
  Placements placements = program.values.at(size_t(instruction.operands.at(0))).placements;
  Placement& along = placements.at(size_t(instruction.axis));
  if (instruction.opcode == Opcode::send) {
    const int at = program.mesh.coordinate(rank, instruction.axis);
    if (at != instruction.root && at != instruction.to) return false;
  }
  if (along.kind == Placement::Kind::stage) along = Placement::replicated();  // the whole group meets
  return holds(program.mesh, placements, rank);
}

namespace {

Range cut_range(const SpmdProgram& program, int table, int64_t extent, int rank) {
  const BoundaryTable& t = program.tables.at(table);
  int64_t unit = unit_of(t, extent);
  size_t at = size_t(program.mesh.coordinate(rank, t.axis));
  const std::vector<int64_t>& bounds = t.bounds_of(program.mesh, rank);
  return {bounds.at(at) * unit, bounds.at(at + 1) * unit};
}

}  // namespace

std::vector<Range> local_ranges(const SpmdProgram& program, const Placements& placements, const Shape& shape,
                                int rank) {
  std::vector<Range> ranges;
  for (int64_t extent : shape) ranges.push_back({0, extent});
  for (const Placement& p : placements)
    if (p.kind == Placement::Kind::sharded)
      ranges.at(p.dim) =
          with_halo(cut_range(program, p.table, shape.at(p.dim), rank), p.before, p.after, shape.at(p.dim));
  if (!holds(program.mesh, placements, rank))
    for (Range& range : ranges) range = {0, 0};
  return ranges;
}

Shape local_shape(const SpmdProgram& program, const Placements& placements, const Shape& shape, int rank) {
  Shape local;
  for (const Range& range : local_ranges(program, placements, shape, rank)) local.push_back(range.hi - range.lo);
  return local;
}

std::vector<Range> factor_ranges(const SpmdProgram& program, const Space& space, const std::vector<Split>& splits,
                                 int rank) {
  std::vector<Range> ranges;
  for (const Factor& factor : space.factors) ranges.push_back({0, factor.size});
  for (const Split& split : splits)
    if (split.factor >= 0)
      ranges.at(split.factor) = cut_range(program, split.table, space.factors.at(split.factor).size, rank);
  return ranges;
}

namespace {

std::string placement_text(const Placement& p) {
  switch (p.kind) {
    case Placement::Kind::replicated:
      return "R";
    case Placement::Kind::sharded:
      return p.overlaps() ? fmt::format("S{}~{}~{}", p.dim, p.before, p.after) : fmt::format("S{}", p.dim);
    case Placement::Kind::partial:
      return p.reduce == ReduceOp::sum ? "P+" : "P" + std::string(name(p.reduce));
    case Placement::Kind::stage:
      return fmt::format("@{}", p.at);
  }
  return "?";
}

/// Whether windows that slide along the split factor read nothing but what devices hold of the operand.
bool reads_within(const Program& reference, const Node& node, size_t operand, const Split& split,
                  const Placement& held) {
  const auto cut =
      window_cut_of(node.space, node.space.inputs[operand], reference[node.inputs[operand]].type.shape, split.factor);
  return cut && cut->dim == held.dim && cut->before <= held.before && cut->after <= held.after;
}

/// The result's placement on one axis; nullopt with the reason otherwise.
std::optional<Placement> infer_axis(const SpmdProgram& program, const Program& reference,
                                    const Instruction& instruction, int axis, std::string* reason) {
  const Node& node = reference[instruction.node];
  const Split& split = instruction.splits[axis];
  auto refuse = [&](std::string why) {
    if (reason) *reason = std::move(why);
    return std::nullopt;
  };
  if (split.factor >= 0) {
    const Factor& factor = node.space.factors.at(split.factor);
    const BoundaryTable& table = program.tables.at(split.table);
    if (factor.kind == FactorKind::whole)
      return refuse(fmt::format("factor {} of {} must stay whole", factor.name, node.name));
    if (table.axis != axis || factor.size % table.extent != 0)
      return refuse(fmt::format("table {} does not cut factor {} of {}", table.name, factor.name, node.name));
  }
  std::set<int> partial;
  for (size_t j = 0; j < instruction.operands.size(); ++j) {
    const Value& value = program.values.at(instruction.operands[j]);
    const Placement& p = value.placements.at(axis);
    if (p.kind == Placement::Kind::stage || (split.stage >= 0 && p.kind != Placement::Kind::replicated)) {
      if (p != Placement::stage(split.stage))
        return refuse(fmt::format("{} is {} where {} is computed {}", value.name, placement_text(p), node.name,
                                  split.stage >= 0 ? fmt::format("on stage {} alone", split.stage) : "on every stage"));
    } else if (p.kind == Placement::Kind::partial) {
      if (p.reduce != ReduceOp::sum || split.factor >= 0)
        return refuse(fmt::format("{} is {} where {} needs it reduced", value.name, placement_text(p), node.name));
      partial.insert(int(j));
    } else if (p.kind == Placement::Kind::sharded) {
      std::optional<FactorCut> cut;
      if (split.factor >= 0)
        cut = cut_of(node.space, node.space.inputs[j], reference[node.inputs[j]].type.shape, split.factor);
      const bool windows = split.factor >= 0 && p.table == split.table && reads_within(reference, node, j, split, p);
      if (!windows && (!cut || cut->dim != p.dim || p.table != split.table))
        return refuse(fmt::format("{} is cut in dimension {} where {} needs it {}", value.name, p.dim, node.name,
                                  cut ? fmt::format("cut in dimension {}", cut->dim) : "whole"));
    }
  }
  if (split.stage >= 0) return Placement::stage(split.stage);
  if (split.factor >= 0) {
    const Factor& factor = node.space.factors[split.factor];
    if (factor.kind == FactorKind::sum) return Placement::partial(ReduceOp::sum);
    if (factor.kind == FactorKind::max) return Placement::partial(ReduceOp::max);
    std::optional<FactorCut> cut = cut_of(node.space, node.space.output, node.type.shape, split.factor);
    if (!cut) return refuse(fmt::format("factor {} does not cut the result of {}", factor.name, node.name));
    return Placement::sharded(cut->dim, split.table);
  }
  if (partial.empty()) return Placement::replicated();
  if (node.space.reduction() == FactorKind::max || linearity(node.body, partial) != Linearity::linear)
    return refuse(fmt::format("{} is not additive in {}, which is partial", node.name,
                              program.values[instruction.operands[*partial.begin()]].name));
  return Placement::partial(ReduceOp::sum);
}

std::string table_text(const SpmdProgram& program, int table) { return table >= 0 ? program.tables[table].name : "-"; }

std::string instruction_text(const SpmdProgram& program, const Program& reference, const Instruction& i) {
  auto value_text = [&](ValueId id) { return program.values[id].name; };
  std::string out = fmt::format("{} = {}", value_text(i.result), name(i.opcode));
  if (i.opcode == Opcode::compute) out += " " + std::string(reference[i.node].tag());
  out += "(";
  for (size_t j = 0; j < i.operands.size(); ++j) out += (j ? ", " : "") + value_text(i.operands[j]);
  out += ")";
  for (size_t a = 0; a < i.splits.size(); ++a)
    if (i.splits[a].factor >= 0)
      out +=
          fmt::format(" split {}:{} by {}", program.mesh.axes[a].name,
                      reference[i.node].space.factors[i.splits[a].factor].name, table_text(program, i.splits[a].table));
    else if (i.splits[a].stage >= 0)
      out += fmt::format(" on {} {}", program.mesh.axes[a].name, i.splits[a].stage);
  if (i.axis >= 0) out += " over " + program.mesh.axes[i.axis].name;
  if (i.dim >= 0) out += fmt::format(" dim {} by {}", i.dim, table_text(program, i.table));
  if (i.to_dim >= 0) out += fmt::format(" to dim {} by {}", i.to_dim, table_text(program, i.to_table));
  if (i.opcode == Opcode::all_reduce || i.opcode == Opcode::reduce_scatter) out += " " + std::string(name(i.reduce));
  if (i.opcode == Opcode::broadcast || i.opcode == Opcode::to_partial) out += fmt::format(" root {}", i.root);
  if (i.opcode == Opcode::send) out += fmt::format(" from {} to {}", i.root, i.to);
  if (i.opcode == Opcode::halo_exchange) out += fmt::format(" before {} after {}", i.before, i.after);
  if (i.realisation != Realisation::native) out += " " + std::string(name(i.realisation));
  if (i.bucket >= 0) out += fmt::format(" bucket {}", i.bucket);
  if (!i.cause.empty()) out += "  # " + i.cause;
  return out + "\n";
}

}  // namespace

std::string text(const Mesh& mesh, const Placements& placements) {
  std::string out;
  for (size_t a = 0; a < placements.size(); ++a)
    out += fmt::format("{}{}:{}", a ? "," : "", mesh.axes[a].name, placement_text(placements[a]));
  return out;
}

std::optional<Placements> infer_placements(const SpmdProgram& program, const Program& reference,
                                           const Instruction& instruction, std::string* reason) {
  Placements out;
  for (int axis = 0; axis < int(program.mesh.axes.size()); ++axis) {
    std::optional<Placement> p = infer_axis(program, reference, instruction, axis, reason);
    if (!p) return std::nullopt;
    out.push_back(*p);
  }
  auto refuse = [&](const std::string& why) {
    if (reason) *reason = fmt::format("{}: {}", reference[instruction.node].name, why);
    return std::nullopt;
  };
  for (size_t a = 0; a < out.size(); ++a)
    for (size_t b = a + 1; b < out.size(); ++b)
      if (out[a].kind == Placement::Kind::partial && out[b].kind == Placement::Kind::partial &&
          out[a].reduce != out[b].reduce)
        return refuse("sums and maxima are left open together");
  if (const std::string why = why_not_divided(program, reference[instruction.node].space.factors, instruction.splits);
      !why.empty())
    return refuse(why);
  if (const std::string why = why_not_held(program, out); !why.empty()) return refuse(why);
  return out;
}

namespace {

std::string bounds_text(const std::vector<int64_t>& bounds) { return fmt::format("[{}]", fmt::join(bounds, ",")); }

std::string table_line(const SpmdProgram& program, const BoundaryTable& t) {
  std::string out = fmt::format("table {} over {}", t.name, program.mesh.axes[t.axis].name);
  if (t.by < 0) return out + ": " + bounds_text(t.bounds) + "\n";
  out += fmt::format(" by {}:", program.mesh.axes[t.by].name);
  for (const std::vector<int64_t>& row : t.rows) out += " " + bounds_text(row);
  return out + "\n";
}

}  // namespace

std::string text(const SpmdProgram& program, const Program& reference) {
  std::string out = "mesh";
  for (const Mesh::Axis& axis : program.mesh.axes) out += fmt::format(" {}={}", axis.name, axis.size);
  out += "\n";
  if (!program.hosts.empty()) out += fmt::format("hosts {}\n", fmt::join(program.hosts, ","));
  for (const BoundaryTable& t : program.tables) out += table_line(program, t);
  for (ValueId leaf : program.leaves) out += "leaf " + program.values[leaf].name + "\n";
  int loop = -1;
  auto enter = [&](int next) {
    if (loop >= 0 && next != loop) out += "}\n";
    if (next >= 0 && next != loop) out += fmt::format("loop {} of {} turns {{\n", next, reference.loops[next].turns);
    loop = next;
  };
  for (const Instruction& i : program.instructions) {
    enter(loop_of(reference, program, i));
    out += (loop < 0 ? "" : "  ") + instruction_text(program, reference, i);
  }
  enter(-1);
  for (const auto& [carry, value] : program.carried)
    out += fmt::format("carry {} <- {}\n", reference[carry].name, program.values[value].name);
  for (const LoopSchedule& schedule : program.schedules) {
    out += fmt::format("schedule of loop {}, parts of {}:", schedule.loop, fmt::join(schedule.parts, ","));
    for (const auto& [part, turn] : schedule.order) out += fmt::format(" {}.{}", part, turn);
    out += "\n";
  }
  for (const auto& [target, value] : program.finals)
    out += fmt::format("final {} <- {}\n", reference[target].name, program.values[value].name);
  if (program.loss >= 0) out += "loss " + program.values[program.loss].name + "\n";
  return out;
}

}  // namespace hetsynth
