// How the summands of partial operands meet in a compute instruction. An instruction is proved for one mesh axis with
// partial operands at a time, the other operands being the same along it (Obligation::partial). With several such axes,
// and summands that vary along further ones (Held::varying), that is a condition of its own: with x partial over axis a
// and y partial over axis b, sum over a and b of x(a) y(b) is the product of the sums, but sum of x(a, b) y(b) is not.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "verify/rules/normalised_plan.h"

namespace hetsynth {

/// The axes that divide a reduced factor of an instruction; by axis, the one along whose coordinates its table varies
/// (-1: none). Axes of one device divide nothing.
using DividedReduction = std::map<int, int>;
DividedReduction divided_reduction(const Subject& subject, const Instruction& instruction);

/// Along which axes the summands of the result differ: where those of the operands do, and where the points that a
/// device reduces do. Partial axes among them are taken out by settle().
std::set<int> varying_summands(const std::vector<Held>& operands, const DividedReduction& reduction);

/// Why the open axes cannot be summed one after another, each while the operands that are not partial over it are alike
/// along it: because their summands do not vary there, or because they have been summed completely before. Empty if
/// there is such an order.
std::string summands_that_differ(const Subject& subject, const std::vector<Held>& operands);

/// A point of a divided reduction belongs to one coordinate of the axis that divides it. Where the summands of an
/// operand vary along that axis, all summands of a point must come from one coordinate, which may therefore not depend
/// on that of an open axis. Says where it does; empty if nowhere.
std::string points_of_several_owners(const Subject& subject, const std::vector<Held>& operands,
                                     const DividedReduction& reduction);

}  // namespace hetsynth
