// 200 random triples of program, plan and mutation: no answer of the verifier on the wrong side of evaluation. The long
// version is build/bench/bench_mutation.
#include "tests/mutation/survey.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "random_plans.h"

namespace hetsynth {
namespace {

void expect_no_disagreement(const mutation::Survey& survey) {
  for (const std::string& line : survey.disagreements()) ADD_FAILURE() << line;
  mutation::Tally total = survey.total();
  EXPECT_EQ(total.wrongly_accepted, 0);
  EXPECT_EQ(total.wrongly_refused, 0);
  EXPECT_GT(total.refuted, total.mutants / 3);
}

TEST(Survey, RandomTriplesOfTheExamples) {
  uint64_t seed = std::random_device()();
  fmt::print("seed {}\n", seed);
  std::mt19937_64 random(seed);
  std::vector<mutation::Subject> subjects = mutation::subjects(/*large=*/false);
  std::vector<std::pair<size_t, mutation::Mutant>> all;
  for (size_t s = 0; s < subjects.size(); ++s)
    mutation::each_mutant(subjects[s].reference, subjects[s].plan, [&](mutation::Mutant m) {
      all.push_back({s, std::move(m)});
      return true;
    });
  ASSERT_GT(all.size(), 500u);
  std::shuffle(all.begin(), all.end(), random);
  mutation::Survey survey;
  for (size_t i = 0; i < 100; ++i)
    survey.take(subjects[all[i].first].name, subjects[all[i].first].reference, all[i].second);
  expect_no_disagreement(survey);
  EXPECT_EQ(survey.total().right_unknown, 0);
}

TEST(Survey, RandomTriplesOfRandomPrograms) {
  uint64_t seed = std::random_device()();
  fmt::print("seed {}\n", seed);
  test::Random random(seed);
  mutation::Survey survey;
  while (survey.total().mutants < 100) {
    Program reference = test::random_program(random, 3 + int(random() % 8));
    SpmdProgram plan = test::random_plan(random, reference);
    std::vector<mutation::Mutant> mutants;
    mutation::each_mutant(reference, plan, [&](mutation::Mutant m) {
      mutants.push_back(std::move(m));
      return true;
    });
    for (int i = 0; i < 5 && !mutants.empty(); ++i)
      survey.take(fmt::format("seed {}", seed), reference, mutants[random() % mutants.size()]);
  }
  expect_no_disagreement(survey);
}

/// Every kind of the catalogue has a place somewhere in the subjects, and every right rewrite is proved there.
TEST(Survey, EveryKindIsMetAndRewritesAreProved) {
  std::map<std::string, int> met;
  mutation::Survey rewrites;
  for (const mutation::Subject& subject : mutation::subjects(/*large=*/false))
    mutation::each_mutant(subject.reference, subject.plan, [&](mutation::Mutant m) {
      if (++met[m.kind] <= 3 && m.equal) rewrites.take(subject.name, subject.reference, m);
      return true;
    });
  EXPECT_GT(met.size(), 25u);
  for (const std::string kind : {"all_reduce dropped", "operands swapped", "split by another table", "= dead code"})
    EXPECT_GT(met[kind], 0) << kind;
  mutation::Tally total = rewrites.total();
  EXPECT_EQ(total.proved, total.mutants);
  for (const std::string& line : rewrites.undecided()) ADD_FAILURE() << line;
}

}  // namespace
}  // namespace hetsynth
