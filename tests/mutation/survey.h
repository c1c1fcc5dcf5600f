// What the verifier says of mutants, held against evaluation.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/mutation/mutants.h"
#include "verify/verify.h"

namespace hetsynth::mutation {

struct Tally {
  int mutants = 0;
  int refuted = 0;           ///< shown to differ
  int unknown = 0;           ///< not proved, no difference at the plan's own sizes
  int proved = 0;            ///< and evaluation finds no difference either
  int wrongly_accepted = 0;  ///< proved, but evaluation differs
  int wrongly_refused = 0;   ///< right by construction, but refuted
  int right_unknown = 0;     ///< right by construction, but not proved
};

class Survey {
 public:
  /// Verifies the mutant and judges the answer by evaluation at the plan's sizes and at others, with other numbers.
  void take(const std::string& subject, const Program& reference, const Mutant& mutant);

  const std::map<std::string, Tally>& by_kind() const { return by_kind_; }
  Tally total() const;
  /// One line per disagreement: what was changed, and what both sides say.
  const std::vector<std::string>& disagreements() const { return disagreements_; }
  /// Mutants without an answer, one line each.
  const std::vector<std::string>& undecided() const { return undecided_; }
  /// A table of kinds.
  std::string text() const;
  double seconds = 0;

 private:
  std::map<std::string, Tally> by_kind_;
  std::vector<std::string> disagreements_, undecided_;
};

/// Plans to change.
struct Subject {
  std::string name;
  Program reference;
  SpmdProgram plan;
};
/// The example models and the layers of the tests at small sizes, by data parallelism over even, uneven and empty
/// shares of two and three devices, and as synthesized.
std::vector<Subject> subjects(bool large);

}  // namespace hetsynth::mutation
