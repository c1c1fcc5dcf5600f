// What each instruction leaves behind, inferred from what its operands are found to hold. Own rules: nothing is taken
// from synthesis or from the placements that the plan claims.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "verify/obligation.h"
#include "verify/subject.h"

namespace hetsynth {

/// Outcome of a rule: what the result holds and the lemmas this rests on, or why the rule does not apply.
struct Inference {
  std::optional<Held> result;
  std::string reason;
  std::set<std::string> lemmas;
};

/// Collectives and local movements: all but compute.
Inference infer_movement(const Subject& subject, const Instruction& instruction, const Held& operand);

/// What remains to be proved of a compute instruction for its inference to hold.
struct ComputeInference : Inference {
  Obligation obligation;
};

/// Cuts by (table, elements of a digit per unit of the table): the same pair is the same cut.
using CutNumbers = std::map<std::pair<int, int64_t>, Cut>;

ComputeInference infer_compute(const Subject& subject, const Instruction& instruction,
                               const std::vector<Held>& operands, CutNumbers& cuts);

/// Why the obligation of a compute instruction failed, in plain words.
std::string explain(const Subject& subject, const Instruction& instruction, const std::vector<Held>& operands,
                    const ObligationResult& result);

}  // namespace hetsynth
