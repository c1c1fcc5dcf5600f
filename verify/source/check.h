// Holds the generated program of one rank against the verified SPMD program.
//
// The text is parsed by Clang and followed from top to bottom, with an account of what every part of the arena holds.
// Nothing is asked of the generator: which instructions a kernel carries out, and in what order it stores their
// results, is found from the text, and the names and comments in it count for nothing. Each kernel and matrix product
// is held against the program's operators at its corners and at random elements, with memory's contents as unknowns;
// collectives are compared number by number.
//
// This lives apart from the proof (verify/*.h): it speaks of one rank's text at the plan's own sizes, needs Clang, and
// takes from the code generator only the narrow RankSource below.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "verify/source/step/rank_source.h"
#include "verify/verify.h"

namespace hetsynth {

struct SourceCheck {
  Verdict verdict = Verdict::unknown;  ///< proved: the text does what the program says
  std::string summary;                 ///< one sentence: what differs, or what could not be followed
  int rank = 0;
  int line = 0;               ///< of the text, 0 if none
  SourceLocation where = {};  ///< the user's line of the tensor concerned, if one is
  int statements = 0;         ///< kernels, products, copies and collectives held against the program
  int collectives = 0;
  bool out_of_work = false;  ///< unknown, since SourceOptions::work_in_all was reached
  double seconds = 0;
};

/// Counts up whenever the check looks at more: what passed an earlier one was not held against this one.
constexpr const char* source_check_revision = "10";

/// Expects a plan that the verifier proved. Never throws for anything in the text.
SourceCheck check_source(const Program& reference, const SpmdProgram& program, const RankSource& source,
                         const SourceOptions& options);

}  // namespace hetsynth
