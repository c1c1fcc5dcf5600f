// Plans whose layers lie on different groups of devices: a plan over some axes, made into one with pipeline stages.
#pragma once
#include <vector>

#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// The stage of every node: parameters in the order of their first use in equal numbers of elements, what is computed
/// forward on the last stage that one of its inputs lies on, backward and in updates on the first. -1: an input, which
/// every stage holds.
std::vector<int> stages_of(const Program& reference, int stages);

/// The plan with an axis "pp" of that many stages before its own axes: every instruction on the stage of its node, what
/// lies elsewhere sent there once, the loss broadcast. Expects a plan without stages.
SpmdProgram pipelined_plan(const Program& reference, const SpmdProgram& plan, int stages);
/// The same by given stages (-1 for inputs and nothing else).
SpmdProgram pipelined_plan(const Program& reference, const SpmdProgram& plan, int stages,
                           const std::vector<int>& stage_of);

}  // namespace hetsynth::test
