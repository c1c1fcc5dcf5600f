// Every sample of the list of operators as a program of its own, and plans of it that divide one factor: for tests of
// what holds of any operator.
#pragma once
#include <vector>

#include "dsl/ir/operator.h"
#include "dsl/spmd/spmd.h"

namespace hetsynth::test {

/// One operator between input leaves; its result, "out", is an output.
Program program_of(const OperatorSample& sample);

/// Whether the result can be computed in parts of the factor.
bool can_split(const Program& program, int factor);

/// The operator split along one factor over an axis of bounds.size() - 1 devices, its operands cut where the factor
/// cuts them; partial results are reduced.
SpmdProgram split(const Program& program, int factor, const std::vector<int64_t>& bounds);

}  // namespace hetsynth::test
