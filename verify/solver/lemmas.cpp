#include "verify/solver/lemmas.h"

#include <mutex>
#include <sstream>

#include "dsl/base/error.h"

namespace hetsynth {

const std::map<std::string, std::string>& lemma_texts() {
  static const std::map<std::string, std::string> texts = {
#include "lemma_texts.inc"
  };
  return texts;
}

std::vector<LemmaStep> lemma_steps(const std::string& text) {
  constexpr std::string_view step_mark = ";; step ", goal_mark = ";; goal";
  std::vector<LemmaStep> steps;
  bool in_goal = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(step_mark, 0) == 0) {
      HETSYNTH_CHECK(steps.empty() || in_goal, "a step of a lemma has a goal");
      steps.push_back({line.substr(step_mark.size()), "", ""});
      in_goal = false;
    } else if (line == goal_mark) {
      HETSYNTH_CHECK(!steps.empty() && !in_goal, "a goal of a lemma belongs to one step");
      in_goal = true;
    } else if (!steps.empty()) {
      (in_goal ? steps.back().negated_goal : steps.back().premises) += line + "\n";
    }
  }
  HETSYNTH_CHECK(!steps.empty() && in_goal, "a lemma ends with the goal of its last step");
  return steps;
}

smt::Answer prove_lemma(smt::Solver& solver, const std::string& text) {
  for (const LemmaStep& step : lemma_steps(text)) {
    smt::Answer answer = solver.prove_text(step.premises, step.negated_goal);
    if (answer != smt::Answer::proved) return answer;
  }
  return smt::Answer::proved;
}

smt::Answer prove_named_lemma(smt::Solver& solver, const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> proved;
  std::lock_guard lock(mutex);
  if (proved.count(name)) return smt::Answer::proved;
  smt::Answer answer = prove_lemma(solver, lemma_texts().at(name));
  if (answer == smt::Answer::proved) proved.insert(name);
  return answer;
}

}  // namespace hetsynth
