// The long survey: mutants of the plans of the example models, then of random programs.
//   bench_mutation [triples = 10000] [seed = 1]
#include <fmt/format.h>

#include <CLI/CLI.hpp>

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
  int triples = 10000;
  uint64_t seed = 1;
  CLI::App app("Mutants of the plans of the example models, then of random programs");
  app.add_option("TRIPLES", triples, "how many")->check(CLI::Range(1, 100'000'000));
  app.add_option("SEED", seed, "of what is random");
  CLI11_PARSE(app, argc, argv);
  fmt::print("{} triples, seed {}\n", triples, seed);
  // Half of the triples are of the examples, the rest of random programs.
  mutation::Survey examples, random;
  mutation::survey_subjects(examples, mutation::subjects(/*large=*/true), size_t(triples) / 2, seed);
  size_t bad = report("plans of examples", examples);
  mutation::survey_random_programs(random, triples - examples.total().mutants, seed);
  bad += report("random programs", random);
  return bad ? 1 : 0;
}
