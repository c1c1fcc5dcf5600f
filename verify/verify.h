// The stage `verify`: does the SPMD program compute what the reference program says, for all sizes, boundaries and
// device counts?
#pragma once
#include <set>
#include <string>
#include <vector>

#include "dsl/spmd/spmd.h"
#include "verify/refute/counterexample.h"

namespace hetsynth {

enum class Verdict { proved, refuted, unknown };
std::string_view name(Verdict verdict);

/// An obligation the solver proved: all instructions whose obligations are equal up to names share it.
struct ProvedObligation {
  std::string hash;      ///< of everything the proof depends on
  std::string first;     ///< the first tensor that needed it, for people
  int instructions = 0;  ///< that needed it
  int queries = 0;       ///< the solver answered
};

struct Verification {
  Verdict verdict = Verdict::unknown;
  int instruction = -1;           ///< the first instruction without proof, -1 if none
  std::string summary;            ///< one sentence: "gradient of w1 is partial over axis dp and never reduced"
  Counterexample counterexample;  ///< if refuted
  int obligations = 0;            ///< proof obligations met
  int distinct_obligations = 0;   ///< of them, sent to the solver (the rest are equal up to names)
  int lemmas = 0;
  double seconds = 0;
  std::string solver;                    ///< "Z3 4.8.12"
  std::vector<std::string> assumptions;  ///< the scope, in plain words
  std::vector<ProvedObligation> proofs;  ///< in the order they were met
  std::vector<std::string> lemma_names;  ///< that the proof rests on
  int trials = 0;                        ///< small instances of a proved plan that were executed, and agreed
  /// How an execution contradicts the proof that was found: a fault of the verifier. The verdict is unknown then.
  std::string contradiction;
};

/// Answers the solver gave before.
struct ProofStore {
  std::set<std::string> obligations;  ///< hashes of what was proved
  std::set<std::string> lemmas;
};

struct VerifyOptions {
  double time_limit_seconds = 60;
  /// If given, the solver is not asked: what is not among these is not proved.
  const ProofStore* known = nullptr;
  /// Seconds that executing a proved plan at small instances may take.
  double trial_seconds = 0.3;
};

Verification verify(const Program& reference, const SpmdProgram& program, const VerifyOptions& options = {});

}  // namespace hetsynth
