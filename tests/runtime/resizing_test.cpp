// What slow devices should leave out, and when something else is better: choices at given figures.
#include "runtime/balance/resizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hetsynth {
namespace {

using ::testing::ElementsAre;

/// A step takes as long as its slowest rank, and `exchange` seconds.
Resizing best_of(const std::vector<double>& seconds, double products = 0.8, double packing = 0, double exchange = 0) {
  std::vector<ComputeShares> ranks;
  for (const double s : seconds) ranks.push_back({.seconds = s, .products = products, .packing = packing, .flops = 1});
  return best_resizing(
      ranks,
      [&](const std::vector<double>& times) {
        double slowest = 0;
        for (size_t i = 0; i < seconds.size(); ++i) slowest = std::max(slowest, seconds[i] * times[i]);
        return slowest + exchange;
      },
      0.05);
}

TEST(Resizing, ASlowRankNeedsNoLongerThanTheOthers) {
  const Resizing out = best_of({1, 1, 1, 1.5});
  ASSERT_EQ(out.parts.size(), 4u);
  EXPECT_THAT(std::vector(out.parts.begin(), out.parts.begin() + 3), ElementsAre(0, 0, 0));
  EXPECT_NEAR(out.parts[3], (1 - 1 / 1.5) / 0.8, 1e-12);
  EXPECT_NEAR(out.seconds, 1, 1e-12);
  EXPECT_NEAR(out.left_out, out.parts[3] / 4, 1e-12);
}

TEST(Resizing, WhatCopyingTakesIsLeftOutAsWell) {
  const Resizing out = best_of({1, 1.4}, 0.8, 0.05);
  EXPECT_NEAR(out.seconds, 1, 1e-12);
  EXPECT_NEAR(out.parts[1], (1 - 1 / 1.4 + 0.05) / 0.8, 1e-12);
}

TEST(Resizing, NoMoreThanHalfIsLeftOut) {
  const Resizing out = best_of({1, 1, 1, 10});
  EXPECT_EQ(out.parts[3], most_left_out);
  EXPECT_NEAR(out.seconds, 6, 1e-12);
}

TEST(Resizing, NothingIsLeftOutWhereItGainsLittle) {
  EXPECT_FALSE(best_of({1, 1.04}).any());
  EXPECT_FALSE(best_of({1, 1, 1.05, 1}).any());
  EXPECT_FALSE(best_of({1, 1}).any());
  EXPECT_FALSE(best_of({1, 1.5}, 0).any()) << "there are no products";
  // All but one are slow: what they would leave out is most of the work.
  EXPECT_FALSE(best_of({1, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2}).any());
}

TEST(Resizing, TwoSlowRanksOfFourBothLeaveOut) {
  const Resizing out = best_of({1, 1, 1.5, 1.3});
  EXPECT_GT(out.parts[2], out.parts[3]);
  EXPECT_GT(out.parts[3], 0);
}

TEST(Resizing, TimesWithAllColumnsAreThoseOfAStepThatLeavesNoneOut) {
  // 10 s, of which products take 8; a quarter is left out, and copying takes 0.5 s.
  const ComputeShares out = with_all_columns(2 + 6 + 0.5, 6, 0.5, 1, 0.25);
  EXPECT_NEAR(out.seconds, 10, 1e-12);
  EXPECT_NEAR(out.products, 0.8, 1e-12);
  EXPECT_NEAR(out.packing, 0.05, 1e-12);
  EXPECT_EQ(with_all_columns(10, 8, 0, 1, 0).seconds, 10);
}

/// One of two equal devices at half of its speed: without loss 2 s a step, 4/3 s with other shares; 1 s without half of
/// the slow one's work, a quarter of all.
RemedyFigures half_speed(double pause, int64_t horizon) {
  return {.nothing_seconds = 2,
          .resizing = {.parts = {0, 0.5}, .seconds = 1, .left_out = 0.25},
          .divide_seconds = 4.0 / 3,
          .same_program = true,
          .pause_seconds = pause,
          .horizon = horizon};
}

TEST(Remedy, CheapMigrationIsTaken) {
  EXPECT_EQ(choose_remedy(half_speed(1, 1000), 0.05), Remedy::shares);
  RemedyFigures other = half_speed(1, 1000);
  other.same_program = false;
  EXPECT_EQ(choose_remedy(other, 0.05), Remedy::plan);
}

TEST(Remedy, AShortDisturbanceIsBridged) {
  EXPECT_EQ(choose_remedy(half_speed(1, 5), 0.05), Remedy::resize);
  EXPECT_EQ(choose_remedy(half_speed(100, 300), 0.05), Remedy::resize);
}

TEST(Remedy, APipelineWithoutSharesLeavesColumnsOut) {
  RemedyFigures figures = half_speed(1, 1000);
  figures.divide_seconds = 0;
  EXPECT_EQ(choose_remedy(figures, 0.05), Remedy::resize);
}

TEST(Remedy, NothingIsDoneWhereNothingHelps) {
  EXPECT_EQ(choose_remedy({.nothing_seconds = 1, .resizing = {}}, 0.05), Remedy::nothing);
  EXPECT_EQ(choose_remedy({.nothing_seconds = 1, .resizing = {}, .divide_seconds = 0.97, .horizon = 1000}, 0.05),
            Remedy::nothing);
  RemedyFigures costly = half_speed(10, 5);
  costly.resizing = {};
  EXPECT_EQ(choose_remedy(costly, 0.05), Remedy::nothing);
  // So much is left out that a step is worth less than it takes.
  costly.resizing = {.parts = {0.5, 0.5}, .seconds = 1.2, .left_out = 0.5};
  EXPECT_EQ(choose_remedy(costly, 0.05), Remedy::nothing);
}

}  // namespace
}  // namespace hetsynth
