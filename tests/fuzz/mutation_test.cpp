// A bounded, seeded stand-in for the libFuzzer targets that every build can run.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/cases.h"
#include "tests/fuzz/mutate.h"

namespace hetsynth::testing {
namespace {

struct Count {
  int taken = 0, refused = 0;
};

Count run(const std::vector<std::string>& seeds, bool (*check)(std::string_view), int mutants) {
  std::mt19937_64 random(20240611);
  Count count;
  for (int i = 0; i < mutants; ++i) {
    const std::string text = mutate(seeds[size_t(i) % seeds.size()], random);
    try {
      ++(check(text) ? count.taken : count.refused);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutant " << i << ": " << error.what() << "\n" << text;
      break;
    }
  }
  return count;
}

TEST(Fuzz, MutatedClusterFiles) {
  for (const std::string& seed : cluster_seeds()) EXPECT_TRUE(check_cluster_bytes(seed));
  const Count count = run(cluster_seeds(), check_cluster_bytes, 20000);
  // Both outcomes must be common, or the mutations are too weak or too strong to say anything.
  EXPECT_GT(count.taken, 1000);
  EXPECT_GT(count.refused, 1000);
}

TEST(Fuzz, MutatedPlanFiles) {
  for (const std::string& seed : plan_seeds()) EXPECT_TRUE(check_plan_bytes(seed));
  const Count count = run(plan_seeds(), check_plan_bytes, 20000);
  EXPECT_GT(count.taken, 200);
  EXPECT_GT(count.refused, 1000);
}

/// Of changed certificates only those are taken whose change is none, as of space between values.
TEST(Fuzz, MutatedCertificateFiles) {
  for (const std::string& seed : certificate_seeds()) EXPECT_TRUE(check_certificate_bytes(seed));
  const Count count = run(certificate_seeds(), check_certificate_bytes, 20000);
  EXPECT_GT(count.refused, 10000);
  EXPECT_LT(count.taken, 2000);
}

TEST(Fuzz, MutatedTokenizerFiles) {
  for (const std::string& seed : tokenizer_seeds()) EXPECT_TRUE(check_tokenizer_bytes(seed));
  const Count count = run(tokenizer_seeds(), check_tokenizer_bytes, 4000);
  EXPECT_GT(count.taken, 100);
  EXPECT_GT(count.refused, 500);
}

}  // namespace
}  // namespace hetsynth::testing
