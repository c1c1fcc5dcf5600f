#include "tests/theorems/movements.h"

#include <algorithm>

namespace hetsynth::theorems {
namespace {

using smt::Solver;
using smt::Term;

/// One movement at work. Devices lay blocks and take parts by the instruction's tables, in ignorance of what they hold.
class Movement {
 public:
  Movement(World& world, const Instruction& instruction, const Shape& shape)
      : w_(world), s_(world.solver), i_(instruction), shape_(shape) {}

  Family run(const Family& before) {
    switch (i_.opcode) {
      case Opcode::slice:
        return sliced(before, i_.dim, i_.table);
      case Opcode::all_gather:
        return gathered(before);
      case Opcode::all_reduce:
        return reduced(before);
      case Opcode::reduce_scatter:
        return sliced(reduced(before), i_.dim, i_.table);
      case Opcode::all_to_all:
        return sliced(gathered(before), i_.to_dim, i_.to_table);
      case Opcode::halo_exchange:
        return widened(gathered(before));
      default:
        return from_root(before);
    }
  }

 private:
  std::vector<int> group(int rank) const { return w_.subject.program.mesh.group(rank, i_.axis); }

  void expect(Family& family, Term term) { family.fits.push_back(term); }

  void same_extents(Family& out, const Family& before, int rank, int peer, int but) {
    const Terms mine = before.extents(rank), theirs = before.extents(peer);
    for (int d = 0; d < int(mine.size()); ++d)
      if (d != but) expect(out, s_.equal(mine[size_t(d)], theirs[size_t(d)]));
  }

  /// False, with what fits being false, if a device of a group has nothing to give.
  bool all_hold(Family& out, const Family& before) {
    for (int rank = 0; rank < w_.ranks(); ++rank)
      for (int peer : group(rank))
        if (before.holds(rank) && !before.holds(peer)) {
          out.fits = {s_.boolean(false)};
          return false;
        }
    return true;
  }

  /// A device's part of what its group has together, taken where all of that is there.
  Family sliced(const Family& whole, int dim, int table) {
    const auto share = [this, dim, table](int rank) {
      const Interval part = w_.tables.part(table, shape_[size_t(dim)], rank);
      const Interval all = w_.tables.group(table, shape_[size_t(dim)], rank);
      return std::pair(Interval{s_.sub(part.lo, all.lo), s_.sub(part.hi, all.lo)}, s_.sub(all.hi, all.lo));
    };
    Family out = whole;
    for (int rank = 0; rank < w_.ranks(); ++rank)
      if (whole.holds(rank)) expect(out, s_.equal(whole.extents(rank)[size_t(dim)], share(rank).second));
    out.extents = [this, whole, share, dim](int rank) {
      Terms extents = whole.extents(rank);
      const Interval part = share(rank).first;
      extents[size_t(dim)] = s_.sub(part.hi, part.lo);
      return extents;
    };
    out.element = [this, whole, share, dim](int rank, const Terms& local) {
      Terms at = local;
      at[size_t(dim)] = s_.add(local[size_t(dim)], share(rank).first.lo);
      return whole.element(rank, at);
    };
    return out;
  }

  /// Where a peer's block lies in what the group gathers.
  Interval block(int peer) {
    const Interval part = w_.tables.part(i_.table, shape_[size_t(i_.dim)], peer);
    const Interval all = w_.tables.group(i_.table, shape_[size_t(i_.dim)], peer);
    return {s_.sub(part.lo, all.lo), s_.sub(part.hi, all.lo)};
  }

  Family gathered(const Family& before) {
    Family out = before;
    if (!all_hold(out, before)) return out;
    for (int rank = 0; rank < w_.ranks(); ++rank) {
      if (!before.holds(rank)) continue;
      for (int peer : group(rank)) {
        const Interval at = block(peer);
        expect(out, s_.equal(before.extents(peer)[size_t(i_.dim)], s_.sub(at.hi, at.lo)));
        same_extents(out, before, rank, peer, i_.dim);
      }
    }
    out.extents = [this, before](int rank) {
      Terms extents = before.extents(rank);
      const Interval all = w_.tables.group(i_.table, shape_[size_t(i_.dim)], rank);
      extents[size_t(i_.dim)] = s_.sub(all.hi, all.lo);
      return extents;
    };
    out.element = [this, before](int rank, const Terms& local) {
      std::optional<Term> found;
      for (int peer : group(rank)) {
        const Interval at = block(peer);
        Terms theirs = local;
        theirs[size_t(i_.dim)] = s_.sub(local[size_t(i_.dim)], at.lo);
        const Term element = before.element(peer, theirs);
        found = found ? s_.choose(w_.inside(local[size_t(i_.dim)], at), element, *found) : element;
      }
      return *found;
    };
    return out;
  }

  Family reduced(const Family& before) {
    Family out = before;
    if (!all_hold(out, before)) return out;
    for (int rank = 0; rank < w_.ranks(); ++rank)
      if (before.holds(rank))
        for (int peer : group(rank)) same_extents(out, before, rank, peer, -1);
    out.element = [this, before](int rank, const Terms& local) {
      Terms all;
      for (int peer : group(rank)) all.push_back(before.element(peer, local));
      return theorems::reduced(w_, i_.reduce, all);
    };
    return out;
  }

  /// A device's part of everything, with what lies around it.
  Family widened(const Family& whole) {
    Held around{-1, Placements(size_t(w_.subject.axis_count()))};
    around.placements[size_t(i_.axis)] = Placement::overlapping(i_.dim, i_.table, i_.before, i_.after);
    const auto range = [this, around](int rank) { return box_of(w_, around, shape_, rank)[size_t(i_.dim)]; };
    Family out = whole;
    for (int rank = 0; rank < w_.ranks(); ++rank)
      if (whole.holds(rank))
        expect(out, s_.equal(whole.extents(rank)[size_t(i_.dim)], s_.integer(shape_[size_t(i_.dim)])));
    out.extents = [this, whole, range](int rank) {
      Terms extents = whole.extents(rank);
      extents[size_t(i_.dim)] = s_.sub(range(rank).hi, range(rank).lo);
      return extents;
    };
    out.element = [this, whole, range](int rank, const Terms& local) {
      Terms at = local;
      at[size_t(i_.dim)] = s_.add(local[size_t(i_.dim)], range(rank).lo);
      return whole.element(rank, at);
    };
    return out;
  }

  /// broadcast, send and to_partial: what the root has, for the group or for the one that receives. A summand is zero
  /// but at the root; devices that hold the tensor keep what they have, others make as much as the root has.
  Family from_root(const Family& before) {
    Family out = before;
    const auto root = [this](int rank) { return group(rank)[size_t(i_.root)]; };
    out.holds = [this, before, root](int rank) {
      const bool receives = i_.opcode != Opcode::send || w_.coordinate(rank, i_.axis) == i_.to;
      return receives && before.holds(root(rank));
    };
    const bool summand = i_.opcode == Opcode::to_partial;
    for (int rank = 0; rank < w_.ranks(); ++rank) {
      if (before.holds(rank) && !before.holds(root(rank))) out.fits = {s_.boolean(false)};
      if (before.holds(rank) && before.holds(root(rank)) && !summand) same_extents(out, before, rank, root(rank), -1);
    }
    const auto source = [before, root, summand](int rank) { return summand && before.holds(rank) ? rank : root(rank); };
    out.extents = [before, source](int rank) { return before.extents(source(rank)); };
    out.element = [this, before, source, summand](int rank, const Terms& local) {
      if (summand && w_.coordinate(rank, i_.axis) != i_.root) return s_.real(0);
      return before.element(source(rank), local);
    };
    return out;
  }

  World& w_;
  Solver& s_;
  const Instruction& i_;
  const Shape& shape_;
};

}  // namespace

Family moved(World& world, const Instruction& instruction, const Family& before, const Shape& shape) {
  // The family reads the movement when its elements are asked for, and keeps it.
  auto movement = std::make_shared<Movement>(world, instruction, shape);
  Family out = movement->run(before);
  const auto element = out.element;
  out.element = [movement, element](int rank, const Terms& local) { return element(rank, local); };
  return out;
}

}  // namespace hetsynth::theorems
