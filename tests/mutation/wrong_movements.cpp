// Movements that are missing, of another kind, or by another table, axis, dimension or reduction.
#include "tests/mutation/workshop.h"

namespace hetsynth::mutation {
namespace {

template <ReduceOp op>
void reduced_by(Workshop& w) {
  w.each({Opcode::all_reduce, Opcode::reduce_scatter}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].reduce = op;
    w.give(w.name(i.result), plan);
  });
}

template <Opcode from, Opcode to>
void replaced(Workshop& w) {
  w.each({from}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    plan.instructions[at].opcode = to;
    w.give(w.name(i.result), plan);
  });
}

void reduced_twice(Workshop& w) {
  w.each({Opcode::all_reduce}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    Instruction again = i;
    again.operands = {i.result};
    Workshop::insert(plan, at, again, plan.values[size_t(i.result)].placements);
    w.give(w.name(i.result), plan);
  });
}

void wrong_axis(Workshop& w) {
  w.each({Opcode::all_reduce, Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::broadcast},
         [&](size_t at, const Instruction& i) {
           for (int axis = 0; axis < int(w.p_.mesh.axes.size()); ++axis) {
             if (axis == i.axis) continue;
             SpmdProgram plan = w.p_;
             plan.instructions[at].axis = axis;
             w.give(w.name(i.result), plan);
           }
         });
}

void wrong_table(Workshop& w) {
  w.each({Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::all_to_all, Opcode::halo_exchange},
         [&](size_t at, const Instruction& i) {
           SpmdProgram plan = w.p_;
           int other = Workshop::other_table(plan, i.table);
           if (other < 0) return;
           plan.instructions[at].table = other;
           w.give(w.name(i.result), plan);
         });
}

void wrong_target_table(Workshop& w) {
  w.each({Opcode::all_to_all}, [&](size_t at, const Instruction& i) {
    SpmdProgram plan = w.p_;
    int other = Workshop::other_table(plan, i.to_table);
    if (other < 0) return;
    plan.instructions[at].to_table = other;
    w.give(w.name(i.result), plan);
  });
}

void wrong_dim(Workshop& w) {
  w.each({Opcode::reduce_scatter, Opcode::all_gather, Opcode::slice, Opcode::all_to_all, Opcode::halo_exchange},
         [&](size_t at, const Instruction& i) {
           const Shape& shape = w.r_[w.p_.values[size_t(i.result)].node].type.shape;
           for (int dim = 0; dim < int(shape.size()); ++dim) {
             if (dim == i.dim || shape[size_t(dim)] != shape[size_t(i.dim)]) continue;
             SpmdProgram plan = w.p_;
             plan.instructions[at].dim = dim;
             w.give(w.name(i.result), plan);
           }
         });
}

}  // namespace

const std::vector<Kind>& wrong_movements() {
  static const std::vector<Kind> kinds = {
      {"all_reduce dropped", dropped<Opcode::all_reduce>},
      {"all_gather dropped", dropped<Opcode::all_gather>},
      {"reduce_scatter dropped", dropped<Opcode::reduce_scatter>},
      {"slice dropped", dropped<Opcode::slice>},
      {"all_to_all dropped", dropped<Opcode::all_to_all>},
      {"reduced twice", reduced_twice},
      {"mean for sum", reduced_by<ReduceOp::average>},
      {"maximum for sum", reduced_by<ReduceOp::max>},
      {"minimum for sum", reduced_by<ReduceOp::min>},
      {"product for sum", reduced_by<ReduceOp::product>},
      {"sum for maximum", reduced_by<ReduceOp::sum>},
      {"broadcast for all_reduce", replaced<Opcode::all_reduce, Opcode::broadcast>},
      {"slice for reduce_scatter", replaced<Opcode::reduce_scatter, Opcode::slice>},
      {"broadcast for all_gather", replaced<Opcode::all_gather, Opcode::broadcast>},
      {"all_reduce for all_gather", replaced<Opcode::all_gather, Opcode::all_reduce>},
      {"wrong axis", wrong_axis},
      {"wrong table in a movement", wrong_table},
      {"wrong target table of all_to_all", wrong_target_table},
      {"wrong dimension in a movement", wrong_dim},
  };
  return kinds;
}

}  // namespace hetsynth::mutation
