// 200 random triples of program, plan and mutation: no answer of the verifier on the wrong side of evaluation. The long
// version is build/bench/bench_mutation.
#include "tests/mutation/survey.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace hetsynth {
namespace {

void expect_no_disagreement(const mutation::Survey& survey) {
  for (const std::string& line : survey.disagreements()) ADD_FAILURE() << line;
  mutation::Tally total = survey.total();
  EXPECT_EQ(total.wrongly_accepted, 0);
  EXPECT_EQ(total.wrongly_refused, 0);
  EXPECT_GT(total.refuted(), total.mutants / 3);
  // 1 % in the long run; of a hundred now and then one.
  EXPECT_LE(total.unknown(), 4);
}

TEST(Survey, RandomTriplesOfTheExamples) {
  uint64_t seed = std::random_device()();
  fmt::print("seed {}\n", seed);
  mutation::Survey survey;
  mutation::survey_subjects(survey, mutation::subjects(/*large=*/false), 100, seed);
  ASSERT_EQ(survey.total().mutants, 100);
  expect_no_disagreement(survey);
}

TEST(Survey, RandomTriplesOfRandomPrograms) {
  uint64_t seed = std::random_device()();
  fmt::print("seed {}\n", seed);
  mutation::Survey survey;
  mutation::survey_random_programs(survey, 100, seed);
  ASSERT_EQ(survey.total().mutants, 100);
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
