// What a device holds, as mathematics: families of local tensors, indexed by the coordinates of devices
// (docs/verification.md, "What a device holds"), as terms of the solver.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tests/theorems/tables.h"

namespace hetsynth::theorems {

using Box = std::vector<Interval>;  ///< per dimension

/// The solver with what is known: of tables, and of the tensors at the elements that were spoken of.
struct World {
  World(const Subject& subject, smt::Solver& solver) : subject(subject), solver(solver), tables(subject, solver) {}
  const Subject& subject;
  smt::Solver& solver;
  Tables tables;
  Terms facts;

  int ranks() const { return subject.program.mesh.device_count(); }
  int coordinate(int rank, int axis) const { return subject.program.mesh.coordinate(rank, axis); }
  smt::Term inside(smt::Term index, const Interval& range);
  smt::Term inside(const Terms& index, const Box& box);
};

/// Whether the rank holds anything of a value held so.
bool holds(const World& world, const Held& held, int rank);

/// The part of a tensor of this shape that a rank holds.
Box box_of(World& world, const Held& held, const Shape& shape, int rank);

/// F(c, i) of docs/verification.md: what a rank holds of the tensor at a global index, a function of the coordinates of
/// the partial axes and of those along which summands vary.
smt::Term summand(World& world, const std::string& tensor, const Held& held, int rank, const Terms& index);

/// That the summands are summands: for all coordinates of the axes along which they vary, reduced over the partial axes
/// they are the tensor, at this index.
void know_sums(World& world, const std::string& tensor, const Held& held, const Terms& index);

/// What ranks have after an instruction, counted from where the part begins that they hold.
struct Family {
  std::function<bool(int rank)> holds;
  std::function<Terms(int rank)> extents;  ///< per dimension
  std::function<smt::Term(int rank, const Terms& local)> element;
  Terms fits;  ///< what must hold for the instruction to be carried out
};

/// What a value held so is, before an instruction reads it.
Family family_of(World& world, const std::string& tensor, const Held& held, const Shape& shape);

/// That the family is the tensor held so, at an arbitrary index: parts of the right sizes that cover the tensor, whose
/// elements depend on no other coordinates than they may, and are the tensor when they are reduced. What cannot be said
/// of a value (owners_differ) holds of none.
Terms is_held(World& world, const Family& family, const std::string& tensor, const Held& held, const Shape& shape,
              const Terms& index);

/// The reduction of terms. Of none: of a sum 0; of a maximum a number that is below everything.
smt::Term reduced(World& world, ReduceOp reduce, const Terms& terms);
smt::Term combined(smt::Solver& solver, ReduceOp reduce, smt::Term a, smt::Term b);

}  // namespace hetsynth::theorems
