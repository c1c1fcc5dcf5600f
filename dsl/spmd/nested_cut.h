// Cuts of one dimension along two mesh axes: the inner axis divides the parts of the outer one further.
#pragma once
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth {

/// Whether the rows of a table lie one behind the other instead of covering the extent each. Row j then divides part j
/// of what axis `by` cuts: {axis 1, extent 8, by 0, rows [0,3,4] [4,7,8]} over parts [0,4,8] of axis 0.
bool nests(const BoundaryTable& table);

/// The axis along whose coordinates the table cuts differently; -1 if all groups of its axis cut alike.
int varies_along(const BoundaryTable& table);

/// How all groups cut, of a table that varies along no axis: one whose rows are equal is the plain table of that row.
const std::vector<int64_t>& common_bounds(const BoundaryTable& table);

/// How axis `by` has to cut what a nesting table divides further, in units of its extent: [0,4,8] above.
std::vector<int64_t> outer_bounds(const BoundaryTable& table);

/// Why one thing cannot be cut by these tables together; empty if it can: by none, by one that does not nest, or by one
/// and a nesting one that divides its parts. `tables`: by mesh axis, -1 where an axis does not cut it.
std::string why_not_cut_by(const SpmdProgram& program, const std::vector<int>& tables);

/// The same of a tensor's dimensions, the first that cannot be held so being named; empty if all can.
std::string why_not_held(const SpmdProgram& program, const Placements& placements);

/// The same of an iteration space's factors; `factors`: of the node that is divided.
std::string why_not_divided(const SpmdProgram& program, const std::vector<Factor>& factors,
                            const std::vector<Split>& splits);

}  // namespace hetsynth
