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
#include "verify/verify.h"

namespace hetsynth {

/// A tensor the runtime writes before the step or reads after it.
struct ArenaSlot {
  NodeId node = -1;
  ValueId value = -1;
  int64_t offset_bytes = 0;
};

/// What the runtime is given of a rank: the text it runs, and where it believes tensors lie.
struct RankSource {
  int rank = 0;
  std::string file_name;
  std::string text;      ///< host source
  std::string kernels;   ///< cuda: source of its kernels
  bool buckets = false;  ///< cuda: gradients travel in buckets (dsl/spmd/buckets.h); in all ranks of a plan or in none
  int64_t arena_bytes = 0;
  std::vector<ArenaSlot> leaves;   ///< written before the step; parameters and states are read after it
  std::vector<ArenaSlot> outputs;  ///< read after the step
  ArenaSlot loss;                  ///< node -1: none
};

struct SourceCheck {
  Verdict verdict = Verdict::unknown;  ///< proved: the text does what the program says
  std::string summary;                 ///< one sentence: what differs, or what could not be followed
  int rank = 0;
  int line = 0;          ///< of the text, 0 if none
  SourceLocation where;  ///< the user's line of the tensor concerned, if one is
  int statements = 0;    ///< kernels, products, copies and collectives held against the program
  int collectives = 0;
  double seconds = 0;
};

struct SourceOptions {
  /// Definitions of the helper functions that kernels lean on (exp_f32, row_sum, ...), as trusted: those in the text
  /// must be among them word for word.
  std::string prelude;
  /// Of cuda: the same for kernels, and what the host program declares to call. Both stand in the texts word for word.
  std::string device_prelude, device_declarations;
  std::string attention_declarations;  ///< the same of texts that call for attention
  /// Evaluations of one kernel after which the answer is unknown.
  int64_t work_per_kernel = 1'000'000'000;
};

/// Counts up whenever the check looks at more: what passed an earlier one was not held against this one.
constexpr const char* source_check_revision = "4";

/// Expects a plan that the verifier proved. Never throws for anything in the text.
SourceCheck check_source(const Program& reference, const SpmdProgram& program, const RankSource& source,
                         const SourceOptions& options);

}  // namespace hetsynth
