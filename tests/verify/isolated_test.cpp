// Proofs in a process of their own: the same answers, and an answer whatever happens to the process.
#include "verify/isolated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/support/plan_builder.h"

namespace hetsynth {
namespace {

using namespace test;
using ::testing::HasSubstr;

TEST(Isolated, SaysWhatTheProofSays) {
  Program p = two_layers();
  SpmdProgram right = data_parallel(p), wrong = right;
  drop(wrong, find(wrong, p, Opcode::all_reduce, "d_w1"));
  for (const SpmdProgram& plan : {right, wrong}) {
    Verification here = verify(p, plan), there = verify_isolated(p, plan);
    EXPECT_EQ(there.verdict, here.verdict);
    EXPECT_EQ(there.summary, here.summary);
    EXPECT_EQ(there.instruction, here.instruction);
    EXPECT_EQ(there.counterexample.text, here.counterexample.text);
    EXPECT_EQ(there.counterexample.where.text(), here.counterexample.where.text());
    EXPECT_EQ(there.assumptions, here.assumptions);
    EXPECT_EQ(there.lemma_names, here.lemma_names);
    ASSERT_EQ(there.proofs.size(), here.proofs.size());
    for (size_t i = 0; i < here.proofs.size(); ++i) EXPECT_EQ(there.proofs[i].hash, here.proofs[i].hash);
  }
}

TEST(Isolated, IsKilledAtTheTimeLimit) {
  auto forever = []() -> Verification {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  Verification v = run_isolated(forever, 0.3, 0);
  EXPECT_EQ(v.verdict, Verdict::unknown);
  EXPECT_THAT(v.summary, HasSubstr("stopped at the time limit"));
  EXPECT_LT(v.seconds, 5);
}

TEST(Isolated, RunsOutOfMemoryByItself) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer's shadow memory is larger than any limit";
#endif
  auto greedy = []() -> Verification {
    std::vector<std::vector<char>> blocks;
    for (;;) blocks.emplace_back(size_t(64) << 20, 'x');
  };
  Verification v = run_isolated(greedy, 60, int64_t(256) << 20);
  EXPECT_EQ(v.verdict, Verdict::unknown);
  EXPECT_THAT(v.summary, HasSubstr("needed more memory than it may take"));
}

TEST(Isolated, CrashesByItself) {
  auto crash = []() -> Verification {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    return {};
  };
  Verification v = run_isolated(crash, 20, 0);
  EXPECT_EQ(v.verdict, Verdict::unknown);
  EXPECT_THAT(v.summary, HasSubstr("signal 11"));
  Verification thrown = run_isolated([]() -> Verification { throw InternalError("that failed"); }, 20, 0);
  EXPECT_EQ(thrown.verdict, Verdict::unknown);
  EXPECT_THAT(thrown.summary, HasSubstr("that failed"));
}

/// Bytes of any kind in names and texts survive the way between the processes.
TEST(Isolated, CarriesAnyText) {
  Verification v = run_isolated(
      [] {
        Verification out;
        out.summary = "quotes \" and \\ and\nlines, \xE2\x82\xAC";
        out.verdict = Verdict::refuted;
        return out;
      },
      20, 0);
  EXPECT_EQ(v.summary, "quotes \" and \\ and\nlines, \xE2\x82\xAC");
  EXPECT_EQ(v.verdict, Verdict::refuted);
}

}  // namespace
}  // namespace hetsynth
