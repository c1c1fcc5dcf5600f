// What the verifier says of mutants, held against evaluation.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/mutation/mutants.h"
#include "verify/verify.h"

namespace hetsynth::mutation {

/// What evaluation says of a mutant, which knows nothing of rules and proofs.
enum class Judgement {
  equal,      ///< no instance differs, at the plan's sizes or at others
  form,       ///< has no meaning
  results,    ///< loss or updates differ
  word,       ///< only what the plan says of a value is wrong
  elsewhere,  ///< right at its own sizes and boundaries, wrong at others
};

struct Tally {
  int mutants = 0;
  int refuted_by_form = 0;     ///< the plan contradicts itself
  int refuted_by_results = 0;  ///< loss or updates shown to differ
  int refuted_by_word = 0;     ///< what the plan says of a value shown to differ
  int proved = 0;              ///< and evaluation finds no difference either
  int unknown_different = 0;   ///< no answer, though evaluation finds a difference
  int unknown_elsewhere = 0;   ///< no answer; right at the plan's own sizes and boundaries, wrong at others
  int unknown_equal = 0;       ///< no answer, and evaluation finds no difference
  int wrongly_accepted = 0;    ///< proved, but evaluation differs
  int wrongly_refused = 0;     ///< refuted, but right by construction or by evaluation

  int refuted() const { return refuted_by_form + refuted_by_results + refuted_by_word; }
  int unknown() const { return unknown_different + unknown_elsewhere + unknown_equal; }
  void add(const Tally& other);
};

/// How long evaluation may look at one mutant.
struct SurveyLimits {
  double seconds = 20;  ///< for each of proof and evaluation
  int looks = 20;       ///< with other numbers, where the verifier refutes what evaluation finds no fault with
};

class Survey {
 public:
  explicit Survey(SurveyLimits limits = {}) : limits_(limits) {}

  /// Verifies the mutant and holds the answer against evaluation at the plan's sizes and at others, with other numbers
  /// than the verifier's own counterexamples have.
  void take(const std::string& subject, const Program& reference, const Mutant& mutant);

  void add(const Survey& other);

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
  SurveyLimits limits_;
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

/// `count` mutants of the subjects, drawn at random from all there are (fewer if there are not so many).
void survey_subjects(Survey& survey, const std::vector<Subject>& subjects, size_t count, uint64_t seed);
/// `count` mutants of random plans of random programs.
void survey_random_programs(Survey& survey, int count, uint64_t seed);

}  // namespace hetsynth::mutation
