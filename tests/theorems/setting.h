// Meshes with boundary tables of every form, and all ways to hold a tensor there.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "verify/rules/rules.h"

namespace hetsynth::theorems {

/// Elements of every dimension and factor: so many units every table cuts.
constexpr int64_t extent = 3;

/// A plan without instructions over axes of these sizes. Each axis has a table, another one, one that differs along
/// each other axis and one that divides the parts of each earlier axis.
SpmdProgram plan_with_tables(const std::vector<int>& axes);

/// The tables of one axis, those first that values are held by; the last one is for instructions alone.
std::vector<int> tables_of(const SpmdProgram& plan, int axis);

/// Every way to hold a tensor of so many dimensions that the verifier's checks of form let pass, with all sets of axes
/// along which the summands of partial values may vary.
std::vector<Held> all_held(const Subject& subject, NodeId node);

/// The same for given placements.
std::vector<Held> all_varying(const Subject& subject, const Held& held);

/// The placements over one axis that a tensor of so many dimensions may have, whether or not they go together.
std::vector<Placement> placements_over(const SpmdProgram& plan, int axis, int dims);

std::string text(const Subject& subject, const Held& held);

}  // namespace hetsynth::theorems
