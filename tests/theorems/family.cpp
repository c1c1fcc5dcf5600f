#include "tests/theorems/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace hetsynth::theorems {

using smt::Solver;
using smt::Term;
using Kind = Placement::Kind;

Term World::inside(Term index, const Interval& range) {
  return solver.all({solver.less_equal(range.lo, index), solver.less(index, range.hi)});
}

Term World::inside(const Terms& index, const Box& box) {
  Terms all;
  for (size_t d = 0; d < index.size(); ++d) all.push_back(inside(index[d], box[d]));
  return solver.all(all);
}

namespace {

std::set<int> axes_of(const Held& held, Kind kind) {
  std::set<int> out;
  for (size_t a = 0; a < held.placements.size(); ++a)
    if (held.placements[a].kind == kind) out.insert(int(a));
  return out;
}

/// Coordinates of a rank along some axes.
std::vector<int> along(const World& world, const std::set<int>& axes, int rank) {
  std::vector<int> out;
  for (int a : axes) out.push_back(world.coordinate(rank, a));
  return out;
}

std::set<int> depends_on(const Held& held) {
  std::set<int> axes = axes_of(held, Kind::partial);
  axes.insert(held.varying.begin(), held.varying.end());
  return axes;
}

Interval with_halo(World& world, Interval part, const Placement& p, int64_t extent) {
  Solver& s = world.solver;
  const Term zero = s.integer(0), end = s.integer(extent);
  const Term lo = s.sub(part.lo, s.integer(p.before)), hi = s.add(part.hi, s.integer(p.after));
  const Term some = s.less(part.lo, part.hi);
  return {s.choose(some, s.choose(s.less(lo, zero), zero, lo), part.lo),
          s.choose(some, s.choose(s.less(end, hi), end, hi), part.hi)};
}

}  // namespace

bool holds(const World& world, const Held& held, int rank) {
  for (int a : axes_of(held, Kind::stage))
    if (world.coordinate(rank, a) != held.placements[size_t(a)].at) return false;
  return true;
}

Box box_of(World& world, const Held& held, const Shape& shape, int rank) {
  Box box;
  for (int64_t extent : shape) box.push_back({world.solver.integer(0), world.solver.integer(extent)});
  // Of two axes that cut a dimension the later one divides the other's parts.
  for (const Placement& p : held.placements) {
    if (p.kind != Kind::sharded) continue;
    const int64_t extent = shape[size_t(p.dim)];
    const Interval part = world.tables.part(p.table, extent, rank);
    box[size_t(p.dim)] = p.overlaps() ? with_halo(world, part, p, extent) : part;
  }
  return box;
}

Term summand(World& world, const std::string& tensor, const Held& held, int rank, const Terms& index) {
  if (!held.open_reduction()) return world.solver.apply(tensor, index);
  std::string name = tensor;
  for (int a : depends_on(held)) name += fmt::format(".{}@{}", a, world.coordinate(rank, a));
  return world.solver.apply(name, index);
}

Term combined(Solver& solver, ReduceOp reduce, Term a, Term b) {
  switch (reduce) {
    case ReduceOp::max:
      return solver.choose(solver.less(a, b), b, a);
    case ReduceOp::min:
      return solver.choose(solver.less(a, b), a, b);
    case ReduceOp::product:
      return solver.mul(a, b);
    default:
      return solver.add(a, b);
  }
}

Term reduced(World& world, ReduceOp reduce, const Terms& terms) {
  Solver& s = world.solver;
  if (terms.empty()) return reduce == ReduceOp::max ? s.real_symbol("below everything") : s.real(0);
  Term out = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) out = combined(s, reduce, out, terms[i]);
  return reduce == ReduceOp::average ? s.mul(s.real(1.0 / double(terms.size())), out) : out;
}

void know_sums(World& world, const std::string& tensor, const Held& held, const Terms& index) {
  const std::optional<ReduceOp> reduce = held.open_reduction();
  if (!reduce) return;
  const std::set<int> open = axes_of(held, Kind::partial);
  std::map<std::vector<int>, std::map<std::vector<int>, Term>> summands;  // by what varies, then by open coordinates
  for (int rank = 0; rank < world.ranks(); ++rank)
    summands[along(world, held.varying, rank)].try_emplace(along(world, open, rank),
                                                           summand(world, tensor, held, rank, index));
  for (const auto& [where, terms] : summands) {
    Terms all;
    for (const auto& [coordinates, term] : terms) all.push_back(term);
    world.facts.push_back(world.solver.equal(reduced(world, *reduce, all), world.solver.apply(tensor, index)));
  }
}

Family family_of(World& world, const std::string& tensor, const Held& held, const Shape& shape) {
  Family out;
  out.holds = [&world, held](int rank) { return holds(world, held, rank); };
  out.extents = [&world, held, shape](int rank) {
    Terms extents;
    for (const Interval& range : box_of(world, held, shape, rank))
      extents.push_back(world.solver.sub(range.hi, range.lo));
    return extents;
  };
  out.element = [&world, tensor, held, shape](int rank, const Terms& local) {
    const Box box = box_of(world, held, shape, rank);
    Terms index;
    for (size_t d = 0; d < local.size(); ++d) index.push_back(world.solver.add(local[d], box[d].lo));
    return summand(world, tensor, held, rank, index);
  };
  return out;
}

namespace {

/// The goals of is_held, one statement at a time.
class Claim {
 public:
  Claim(World& world, const Family& family, const std::string& tensor, const Held& held, const Shape& shape,
        const Terms& index)
      : w_(world), s_(world.solver), family_(family), tensor_(tensor), held_(held), shape_(shape), index_(index) {}

  Terms goals() {
    if (!owners_differ(w_.subject, held_).empty()) return {s_.boolean(false)};
    goals_ = family_.fits;
    for (int rank = 0; rank < w_.ranks(); ++rank) {
      const bool should = holds(w_, held_, rank);
      if (should != family_.holds(rank)) return {s_.boolean(false)};
      boxes_.push_back(box_of(w_, held_, shape_, rank));
      if (should) right_size(rank);
      elements_.push_back(should ? element(rank) : s_.real(0));
    }
    parts_cover();
    depends_on_no_more();
    sums_are_the_tensor();
    return goals_;
  }

 private:
  void right_size(int rank) {
    const Terms extents = family_.extents(rank);
    for (size_t d = 0; d < extents.size(); ++d) {
      const Interval& range = boxes_[size_t(rank)][d];
      goals_.push_back(s_.equal(extents[d], s_.sub(range.hi, range.lo)));
    }
  }

  Term element(int rank) {
    Terms local;
    for (size_t d = 0; d < index_.size(); ++d) local.push_back(s_.sub(index_[d], boxes_[size_t(rank)][d].lo));
    return family_.element(rank, local);
  }

  Term has(int rank) { return w_.inside(index_, boxes_[size_t(rank)]); }

  /// Whether the element lies in the rank's own part, and not only around it.
  Term owns(int rank) {
    Held own = held_;
    for (Placement& p : own.placements) p.before = p.after = 0;
    return w_.inside(index_, box_of(w_, own, shape_, rank));
  }

  /// Ranks that hold anything, by their coordinates along some axes.
  std::map<std::vector<int>, std::vector<int>> ranks_by(const std::set<int>& axes) {
    std::map<std::vector<int>, std::vector<int>> out;
    for (int rank = 0; rank < w_.ranks(); ++rank)
      if (holds(w_, held_, rank)) out[along(w_, axes, rank)].push_back(rank);
    return out;
  }

  /// Whatever the coordinates of the axes that cut nothing, some device holds the element.
  void parts_cover() {
    std::set<int> others;
    for (int a = 0; a < w_.subject.axis_count(); ++a)
      if (held_.placements[size_t(a)].kind != Kind::sharded) others.insert(a);
    for (const auto& [where, ranks] : ranks_by(others)) {
      Terms any;
      for (int rank : ranks) any.push_back(has(rank));
      goals_.push_back(s_.any(any));
    }
  }

  /// Devices that agree on the coordinates that a summand may depend on have the same where they have it.
  void depends_on_no_more() {
    for (const auto& [where, ranks] : ranks_by(depends_on(held_)))
      for (size_t i = 1; i < ranks.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          goals_.push_back(s_.implies(s_.all({has(ranks[i]), has(ranks[j])}),
                                      s_.equal(elements_[size_t(ranks[i])], elements_[size_t(ranks[j])])));
  }

  /// One device that owns the element for all coordinates of the open axes, alike along the others that cut nothing:
  /// what they have is the tensor when it is reduced.
  void sums_are_the_tensor() {
    const std::set<int> open = axes_of(held_, Kind::partial);
    std::set<int> alike;
    for (int a = 0; a < w_.subject.axis_count(); ++a)
      if (!open.count(a) && held_.placements[size_t(a)].kind != Kind::sharded) alike.insert(a);
    for (const auto& [where, ranks] : ranks_by(alike)) {
      std::map<std::vector<int>, std::vector<int>> by_summand;
      for (int rank : ranks) by_summand[along(w_, open, rank)].push_back(rank);
      std::vector<std::vector<int>> groups;
      for (auto& [coordinates, members] : by_summand) groups.push_back(std::move(members));
      choose(groups, {});
    }
  }

  void choose(const std::vector<std::vector<int>>& groups, const std::vector<int>& chosen) {
    if (chosen.size() < groups.size()) {
      for (int rank : groups[chosen.size()]) {
        std::vector<int> next = chosen;
        next.push_back(rank);
        choose(groups, next);
      }
      return;
    }
    Terms have, terms;
    for (int rank : chosen) have.push_back(owns(rank)), terms.push_back(elements_[size_t(rank)]);
    const Term sum = reduced(w_, held_.open_reduction().value_or(ReduceOp::sum), terms);
    goals_.push_back(s_.implies(s_.all(have), s_.equal(sum, s_.apply(tensor_, index_))));
  }

  World& w_;
  Solver& s_;
  const Family& family_;
  const std::string& tensor_;
  const Held& held_;
  const Shape& shape_;
  const Terms& index_;
  std::vector<Box> boxes_;
  Terms elements_, goals_;
};

}  // namespace

Terms is_held(World& world, const Family& family, const std::string& tensor, const Held& held, const Shape& shape,
              const Terms& index) {
  return Claim(world, family, tensor, held, shape, index).goals();
}

}  // namespace hetsynth::theorems
