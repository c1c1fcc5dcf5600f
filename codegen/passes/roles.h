// What part each operator plays in a row-wise nest, and in which pass over the row it runs.
#pragma once
#include "codegen/passes/grouping.h"

namespace hetsynth::codegen {

/// Fills sources, roles and levels of a group's members (sorted by operator). False if they cannot run in one nest.
bool assign_roles(Group& group, const LocalProgram& program, const GroupingOptions& options);

/// Whether a reduction over the innermost loop first writes its summands to a row buffer: it reduces more than a plain
/// operand.
bool needs_own_row(const Member& member, const LocalOp& op, int inner);

/// An operator alone in its nest.
Group single(const LocalProgram& program, const Layouts& layouts, int op);

/// Producer and consumer in one nest: loops identified through what the consumer reads. nullopt if the loops do not
/// fit.
std::optional<Group> join(const Group& producer, const Group& consumer, const LocalProgram& program,
                          const GroupingOptions& options);

}  // namespace hetsynth::codegen
