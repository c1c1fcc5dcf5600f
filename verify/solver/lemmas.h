// Facts about sums, maxima and boundary tables for any number of devices, each proved once by induction
// (lemmas/*.smt2).
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verify/solver/solver.h"

namespace hetsynth {

/// Name and SMT-LIB text of every lemma, by name.
const std::map<std::string, std::string>& lemma_texts();

/// One step of a lemma's induction: the premises, and the assertions that negate what is to follow.
struct LemmaStep {
  std::string name;
  std::string premises;
  std::string negated_goal;
};

/// The steps of a lemma file: each begins with a line ";; step NAME", its negated goal with a line ";; goal". Throws
/// InternalError for any other form.
std::vector<LemmaStep> lemma_steps(const std::string& text);

/// The worst answer over the lemma's steps: proved only if every one is.
smt::Answer prove_lemma(smt::Solver& solver, const std::string& text);

/// The lemma of that name. A lemma says nothing of any plan: once proved, it stays so for the life of the process.
smt::Answer prove_named_lemma(smt::Solver& solver, const std::string& name);

}  // namespace hetsynth
