// The long survey: mutants of the plans of the example models, systematically, then random triples up to a number.
//   bench_mutation [triples = 10000] [seed = 1]
#include <fmt/format.h>

#include <cstdlib>
#include <random>

#include "tests/mutation/survey.h"
#include "tests/verify/random_plans.h"

int main(int argc, char** argv) {
  using namespace hetsynth;
  int triples = argc > 1 ? std::atoi(argv[1]) : 10000;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  fmt::print("{} triples, seed {}\n", triples, seed);
  mutation::Survey survey;
  std::mt19937_64 shuffle(seed);
  std::vector<mutation::Subject> subjects = mutation::subjects(/*large=*/true);
  std::vector<std::pair<size_t, mutation::Mutant>> all;
  for (size_t s = 0; s < subjects.size(); ++s)
    mutation::each_mutant(subjects[s].reference, subjects[s].plan, [&](mutation::Mutant m) {
      all.push_back({s, std::move(m)});
      return true;
    });
  std::shuffle(all.begin(), all.end(), shuffle);
  // Half of the triples are of the examples, the rest of random programs.
  if (all.size() > size_t(triples) / 2) all.resize(size_t(triples) / 2);
  for (const auto& [s, mutant] : all) survey.take(subjects[s].name, subjects[s].reference, mutant);
  fmt::print("{} plans of examples:\n{}", subjects.size(), survey.text());
  test::Random random(seed);
  mutation::Survey random_survey;
  while (survey.total().mutants + random_survey.total().mutants < triples) {
    Program reference = test::random_program(random, 3 + int(random() % 10));
    SpmdProgram plan = test::random_plan(random, reference);
    std::vector<mutation::Mutant> mutants;
    mutation::each_mutant(reference, plan, [&](mutation::Mutant m) {
      mutants.push_back(std::move(m));
      return true;
    });
    for (int i = 0; i < 10 && !mutants.empty(); ++i)
      random_survey.take("a random program", reference, mutants[random() % mutants.size()]);
  }
  fmt::print("random programs:\n{}", random_survey.text());
  int bad = 0;
  for (const mutation::Survey* s : {&survey, &random_survey}) {
    for (const std::string& line : s->disagreements()) fmt::print("DISAGREEMENT {}\n", line), ++bad;
    for (size_t i = 0; i < s->undecided().size() && i < 20; ++i) fmt::print("undecided {}\n", s->undecided()[i]);
  }
  return bad ? 1 : 0;
}
