// Measured timelines: which of the last steps is shown, and clocks of other hosts.
#include "runtime/measured_step.h"

#include <gtest/gtest.h>

#include <random>

namespace hetsynth {
namespace {

TEST(MeasuredStep, IsTheOneOfMedianLengthAmongTheLast) {
  RecentSteps steps;
  EXPECT_TRUE(steps.empty());
  for (const double seconds : {9.0, 9.0, 3.0, 1.0, 2.0, 5.0, 4.0, 8.0, 6.0, 7.0, 3.5})
    steps.add({int64_t(10 * seconds), seconds, {}});
  EXPECT_FALSE(steps.empty());
  EXPECT_EQ(steps.usual().step, 40) << "of the nine from 3 to 3.5";
}

TEST(MeasuredStep, OfTwoIsTheShorterOne) {
  RecentSteps steps;
  steps.add({0, 2.0, {}});
  steps.add({1, 1.0, {}});
  EXPECT_EQ(steps.usual().step, 1);
}

/// Words take from 50 us to 2 ms each way; the clocks differ by minutes.
TEST(MeasuredStep, KnowsHowFarOtherClocksAreAhead) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> delay(50e-6, 2e-3);
  for (const double ahead : {300.0, -12.5}) {
    ClockOffset offset;
    double now = 1000;
    for (int round = 0; round < 8; ++round, now += 0.01) {
      const double there = delay(random), back = delay(random);
      // Said at the same time; each is heard when it arrives.
      offset.note(now + ahead, now + back, now, now + there + ahead);
    }
    EXPECT_NEAR(offset.seconds(), ahead, 1e-3);
  }
}

TEST(MeasuredStep, TakesClocksThatMayBeOneAsOne) {
  ClockOffset offset;
  offset.note(1.0, 1.002, 1.0, 1.0001);
  EXPECT_EQ(offset.seconds(), 0);
}

TEST(MeasuredStep, BeginsWhereTheFirstRankBegins) {
  MeasuredStep step{3, 1, {{5.0, 6.0, {{TraceSpan::Kind::marked, {}, 5.5, 5.75, 0}}}, {4.5, 6.5, {}}}};
  count_from_start(step);
  EXPECT_EQ(step.ranks[0].start, 0.5);
  EXPECT_EQ(step.ranks[0].spans[0].end, 1.25);
  EXPECT_EQ(step.ranks[1].start, 0);
  EXPECT_EQ(step.ranks[1].end, 2);
}

}  // namespace
}  // namespace hetsynth
