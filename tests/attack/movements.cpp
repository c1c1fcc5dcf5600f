#include "tests/attack/movements.h"

#include <algorithm>
#include <ranges>

#include "dsl/spmd/plan_text.h"

namespace hetsynth::attack {
namespace {

using Kind = Placement::Kind;

Opcode drawn(Random& random, std::initializer_list<std::pair<Opcode, int>> weighted) {
  int64_t total = 0;
  for (const auto& [opcode, weight] : weighted) total += weight;
  int64_t draw = below(random, total);
  for (const auto& [opcode, weight] : weighted)
    if ((draw -= weight) < 0) return opcode;
  return Opcode::slice;
}

/// An opcode that suits a placement, or, one time in twelve, any.
Opcode suitable(Random& random, const Placement& p) {
  if (chance(random, 8)) return Opcode(1 + below(random, 9));
  using enum Opcode;
  switch (p.kind) {
    case Kind::replicated:
      return drawn(
          random,
          {{slice, 35}, {to_partial, 15}, {all_reduce, 20}, {broadcast, 15}, {reduce_scatter, 10}, {all_gather, 5}});
    case Kind::sharded:
      return drawn(random, {{all_gather, 50}, {all_to_all, 30}, {halo_exchange, 20}});
    case Kind::partial:
      return drawn(random, {{all_reduce, 55}, {reduce_scatter, 45}});
    case Kind::stage:
      return drawn(random, {{broadcast, 35}, {to_partial, 30}, {send, 35}});
  }
  return slice;
}

/// The placement that a textbook gives the result over the instruction's axis.
Placement target(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::slice:
    case Opcode::reduce_scatter:
      return Placement::sharded(i.dim, i.table);
    case Opcode::all_to_all:
      return Placement::sharded(i.to_dim, i.to_table);
    case Opcode::halo_exchange:
      return Placement::overlapping(i.dim, i.table, i.before, i.after);
    case Opcode::to_partial:
      return Placement::partial(ReduceOp::sum);
    case Opcode::send:
      return Placement::stage(i.to);
    default:
      return Placement::replicated();
  }
}

Instruction started(Opcode opcode, ValueId from, int axis) {
  Instruction i;
  i.opcode = opcode;
  i.operands = {from};
  i.axis = axis;
  return i;
}

ValueId add(Draft& d, Instruction i) {
  const OpcodeFields fields = fields_of(i.opcode);
  if (!fields.cut) i.dim = i.table = -1;
  if (!fields.to_cut) i.to_dim = i.to_table = -1;
  if (!fields.reduce) i.reduce = ReduceOp::sum;
  if (!fields.root) i.root = 0;
  if (!fields.to) i.to = 0;
  if (!fields.halo) i.before = i.after = 0;
  if (fields.realisation) i.realisation = Realisation(below(d.random, 3));
  Placements word = d.placements(i.operands[0]);
  word[size_t(i.axis)] = target(i);
  return d.try_add(std::move(i), word);
}

/// A dimension and a table of the axis that divides it; false if there is none.
bool any_cut(Draft& d, const Shape& shape, int axis, int& dim, int& table) {
  if (shape.empty()) return false;
  dim = int(below(d.random, int64_t(shape.size())));
  table = d.any_table(axis, shape[size_t(dim)]);
  return table >= 0;
}

/// Roots, reductions and halos that fit a placement, mostly.
void fill(Draft& d, Instruction& i, const Placement& p) {
  const int size = d.plan.mesh.axes[size_t(i.axis)].size;
  const ReduceOp of_copies[] = {ReduceOp::max, ReduceOp::min, ReduceOp::average, ReduceOp::max};
  i.reduce = p.kind == Kind::partial ? p.reduce : of_copies[below(d.random, 4)];
  i.root = p.kind == Kind::stage ? p.at : int(below(d.random, size));
  if (chance(d.random, 6)) i.reduce = ReduceOp(below(d.random, 5));
  if (chance(d.random, 6)) i.root = int(below(d.random, size));
  i.to = int(below(d.random, size));
  if (i.opcode == Opcode::halo_exchange) i.before = below(d.random, 2), i.after = i.before ? below(d.random, 3) : 1;
}

/// What one value needs to be held as wanted over an axis: the next movement towards it.
ValueId towards(Draft& d, ValueId from, int axis, const Placement& wanted) {
  const Placement now = d.placements(from)[size_t(axis)];
  Opcode opcode = Opcode::slice;
  if (now.kind == Kind::sharded)
    opcode = wanted.overlaps() && !now.overlaps()                   ? Opcode::halo_exchange
             : wanted.kind == Kind::sharded && chance(d.random, 60) ? Opcode::all_to_all
                                                                    : Opcode::all_gather;
  if (now.kind == Kind::partial)
    opcode = wanted.kind == Kind::sharded && chance(d.random, 60) ? Opcode::reduce_scatter : Opcode::all_reduce;
  if (now.kind == Kind::stage)
    opcode = wanted.kind == Kind::stage     ? Opcode::send
             : wanted.kind == Kind::partial ? Opcode::to_partial
                                            : Opcode::broadcast;
  if (now.kind == Kind::replicated) {
    if (wanted.kind == Kind::stage) return -1;
    if (wanted.kind == Kind::partial) opcode = Opcode::to_partial;
    if (wanted.kind == Kind::replicated) opcode = Opcode::all_reduce;
  }
  Instruction i = started(opcode, from, axis);
  fill(d, i, now);
  i.dim = now.kind == Kind::sharded ? now.dim : wanted.dim;
  i.table = now.kind == Kind::sharded ? now.table : wanted.table;
  i.to_dim = wanted.dim, i.to_table = wanted.table;
  if (opcode == Opcode::all_to_all && i.dim == i.to_dim) i.opcode = Opcode::all_gather;
  if (opcode == Opcode::halo_exchange) i.before = wanted.before, i.after = wanted.after;
  if (opcode == Opcode::send && (i.to = wanted.at) == i.root) return -1;
  return add(d, std::move(i));
}

}  // namespace

ValueId any_movement(Draft& d, ValueId from) {
  const int axis = int(below(d.random, d.axis_count()));
  const Placement p = d.placements(from)[size_t(axis)];
  const Shape& shape = d.node(from).type.shape;
  Instruction i = started(suitable(d.random, p), from, axis);
  fill(d, i, p);
  const OpcodeFields fields = fields_of(i.opcode);
  if (fields.cut) {
    const bool as_it_is = p.kind == Kind::sharded && chance(d.random, 95);
    i.dim = p.dim, i.table = p.table;
    if (!as_it_is && !any_cut(d, shape, axis, i.dim, i.table)) return -1;
  }
  if (fields.to_cut && (!any_cut(d, shape, axis, i.to_dim, i.to_table) || i.dim == i.to_dim)) return -1;
  if (fields.to && i.to == i.root) return -1;
  return add(d, std::move(i));
}

ValueId reached(Draft& d, NodeId tensor, const Placements& wanted, const std::function<bool(ValueId)>& good) {
  std::vector<ValueId> values = d.values_of(tensor);
  if (values.empty()) return -1;
  const auto matching = [&](ValueId v) {
    return std::ranges::count_if(std::views::iota(size_t{0}, wanted.size()),
                                 [&](size_t a) { return d.rules.alike_over(int(a), d.placements(v)[a], wanted[a]); });
  };
  std::ranges::shuffle(values, d.random);
  std::ranges::stable_sort(values, std::ranges::greater(), matching);
  for (size_t start = 0; start < values.size() && start < 3; ++start) {
    ValueId v = chance(d.random, 85) ? values[start] : any_of(d.random, values);
    for (int steps = 0; steps < 9; ++steps) {
      if (d.rules.alike(d.placements(v), wanted) && good(v)) return v;
      std::vector<int> open;
      for (int a = 0; a < d.axis_count(); ++a)
        if (!d.rules.alike_over(a, d.placements(v)[size_t(a)], wanted[size_t(a)])) open.push_back(a);
      // Held as wanted, but by an instruction that does not count: any movement that leaves it as it is.
      if (open.empty()) open.push_back(int(below(d.random, d.axis_count())));
      const int axis = any_of(d.random, open);
      const ValueId next = towards(d, v, axis, wanted[size_t(axis)]);
      if (next >= 0) v = next;
    }
  }
  return -1;
}

}  // namespace hetsynth::attack
