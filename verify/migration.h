// A migration held against the two programs between which a run goes over: whether every rank of the new program gets
// all that it holds of parameters and states, each element once, from a rank that has it.
#pragma once
#include <string>

#include "dsl/spmd/migration.h"

namespace hetsynth {

/// What is wrong with a migration, in one sentence that names tensor, part and ranks; empty: it is right.
///
/// This decides the question, it does not sample it. Boundary tables are numbers here, so every part is a box, and the
/// following is all there is to show, for each rank of the new program and each parameter and state that it holds:
///  - ownership: each move comes from a rank that holds all of the moved part, and lies in what the new rank holds;
///  - coverage: no two moves to a rank overlap, and their elements add up to those that it holds;
///  - order: a part is read where no move writes, because old and new ranks have memory of their own. It is the caller
///    who keeps to that (runtime/executor.h).
/// It rests on the proof of both programs (verify/verify.h), by which a tensor that several ranks hold is the same on
/// all of them at the end of a step.
std::string flaw_of_migration(const Program& reference, const SpmdProgram& old_program, const SpmdProgram& new_program,
                              const Migration& migration);

}  // namespace hetsynth
