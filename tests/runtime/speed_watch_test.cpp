// Changes of speed are found soon, and steps that merely jitter are none.
#include "runtime/balance/speed_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace hetsynth {
namespace {

using Draw = std::function<double(std::mt19937_64&)>;

/// Steps that take 1 on average, by how they jitter.
double normal_tenth(std::mt19937_64& random) { return std::max(0.01, std::normal_distribution(1.0, 0.1)(random)); }
double skewed(std::mt19937_64& random) { return std::lognormal_distribution(0.0, 0.2)(random); }
/// One in 40 takes three to ten times as long.
double with_outliers(std::mt19937_64& random) {
  const double usual = std::normal_distribution(1.0, 0.05)(random);
  return random() % 40 == 0 ? usual * std::uniform_real_distribution(3.0, 10.0)(random) : usual;
}
double quiet(std::mt19937_64& random) { return std::normal_distribution(1.0, 0.002)(random); }

int alarms(const Draw& draw, uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  ControlChart chart;
  int out = 0;
  for (int step = 0; step < steps; ++step) out += chart.add(draw(random));
  return out;
}

/// Steps until a change to `factor` times the time is told of, the first of them counted; 1000: never.
int delay(const Draw& draw, uint64_t seed, double factor, int before = 30) {
  std::mt19937_64 random(seed);
  ControlChart chart;
  for (int step = 0; step < before; ++step)
    if (chart.add(draw(random))) return 1000;
  for (int step = 1; step < 1000; ++step)
    if (chart.add(factor * draw(random))) return step;
  return 1000;
}

TEST(ControlChart, StepsThatJitterGiveNoAlarm) {
  // 20 series of 10,000 steps, each with its own seed.
  for (const auto& [name, draw] : {std::pair<const char*, Draw>{"normal", normal_tenth},
                                   {"skewed", skewed},
                                   {"quiet", quiet},
                                   {"outliers", with_outliers}}) {
    int total = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) total += alarms(draw, seed, 10'000);
    EXPECT_LE(total, std::string(name) == "outliers" ? 2 : 0) << name;
  }
}

TEST(ControlChart, HalfTheSpeedIsKnownWithinFiveSteps) {
  int latest = 0, latest_back = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    latest = std::max(latest, delay(normal_tenth, seed, 2));
    latest_back = std::max(latest_back, delay(normal_tenth, seed, 0.5));
  }
  EXPECT_LE(latest, 5);
  EXPECT_LE(latest_back, 5);
}

TEST(ControlChart, SmallerChangesTakeLonger) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) sum += delay(normal_tenth, seed, 1.25, 100);
  EXPECT_LE(sum / 200, 15);
  for (uint64_t seed = 0; seed < 50; ++seed) EXPECT_LE(delay(quiet, seed, 1.1), 6) << seed;
}

TEST(ControlChart, TheLevelIsThatSinceTheChange) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    ControlChart chart;
    for (int step = 0; step < 40; ++step) chart.add(normal_tenth(random));
    EXPECT_NEAR(chart.level(), 1, 0.08) << seed;  // ten per cent by the root of 40, five times over
    while (!chart.add(3 * normal_tenth(random))) {
    }
    EXPECT_NEAR(chart.level(), 3, 0.6) << seed;  // a median of three to five, with 5 % of deviation
    const int at_once = chart.count();
    EXPECT_GE(at_once, 3);
    EXPECT_LE(at_once, 5);
    for (int step = 0; step < 40; ++step) EXPECT_FALSE(chart.add(3 * normal_tenth(random))) << seed;
    EXPECT_NEAR(chart.level(), 3, 0.25) << seed;
  }
}

TEST(SpeedWatch, NamesTheRankAndHowManyTimesAsLongItTakes) {
  SpeedWatch watch({0.1, 0.2, 0});
  for (int step = 0; step < 10; ++step) EXPECT_TRUE(watch.add({0.11, 0.2, 5}).empty());
  EXPECT_EQ(watch.settled_steps(), 10);
  std::vector<SpeedWatch::Change> changes;
  int steps = 0;
  while (changes.empty()) changes = watch.add({0.11, 0.4, 50}), ++steps;
  EXPECT_LE(steps, 5);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].rank, 1);
  EXPECT_NEAR(changes[0].before, 1, 0.03);  // the first slow steps were learnt from, as less slow ones
  EXPECT_NEAR(changes[0].now, 2, 1e-9);
  EXPECT_NEAR(watch.slowness()[0], 1.1, 1e-9);
  EXPECT_NEAR(watch.slowness()[1], 2, 1e-9);
  EXPECT_LE(watch.settled_steps(), 5);
}

}  // namespace
}  // namespace hetsynth
