// The long survey: mutants of the plans of the example models, then of random programs.
//   bench_mutation [triples = 10000] [seed = 1]
#include <fmt/format.h>

#include <cstdlib>

#include "tests/mutation/survey.h"

namespace {

/// Prints the table and what is to be looked at; the number of disagreements.
size_t report(const char* title, const hetsynth::mutation::Survey& survey) {
  fmt::print("{}:\n{}", title, survey.text());
  for (const std::string& line : survey.disagreements()) fmt::print("DISAGREEMENT {}\n", line);
  for (const std::string& line : survey.undecided()) fmt::print("undecided {}\n", line);
  std::fflush(stdout);
  return survey.disagreements().size();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hetsynth;
  int triples = argc > 1 ? std::atoi(argv[1]) : 10000;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  fmt::print("{} triples, seed {}\n", triples, seed);
  // Half of the triples are of the examples, the rest of random programs.
  mutation::Survey examples, random;
  mutation::survey_subjects(examples, mutation::subjects(/*large=*/true), size_t(triples) / 2, seed);
  size_t bad = report("plans of examples", examples);
  mutation::survey_random_programs(random, triples - examples.total().mutants, seed);
  bad += report("random programs", random);
  return bad ? 1 : 0;
}
