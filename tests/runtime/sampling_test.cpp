// Drawing a token: against a reference that sorts all tokens and adds up all probabilities, and at the edges.
#include "runtime/training/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Probability of every token by the definitions: softmax at the temperature, the k greatest (ties: lower indices),
/// then the shortest prefix of them in that order that has at least top_p of what they have together.
std::vector<double> probabilities(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<std::pair<double, int>> order;  // - probability, index
  double total = 0;
  for (const float logit : logits) total += std::exp(double(logit) / options.temperature);
  for (size_t i = 0; i < logits.size(); ++i)
    order.emplace_back(-std::exp(double(logits[i]) / options.temperature) / total, int(i));
  std::sort(order.begin(), order.end());
  if (options.top_k > 0) order.resize(std::min(order.size(), size_t(options.top_k)));
  double kept = 0;
  for (const auto& [p, i] : order) kept -= p;
  size_t count = order.size();
  if (options.top_p < 1) {
    double sum = 0;
    for (count = 0; count < order.size() && (count == 0 || sum < options.top_p * kept);) sum -= order[count++].first;
  }
  order.resize(count);
  kept = 0;
  for (const auto& [p, i] : order) kept -= p;
  std::vector<double> out(logits.size(), 0);
  for (const auto& [p, i] : order) out[size_t(i)] = -p / kept;
  return out;
}

TEST(Sampling, DrawsByTheDefinitions) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const std::vector<SamplingOptions> all = {{1.0, 0, 1.0}, {0.7, 3, 1.0},  {1.3, 0, 0.6},   {0.9, 4, 0.8},
                                            {1.0, 1, 1.0}, {1.0, 0, 1e-9}, {2.0, 99, 0.99}, {0.2, 5, 0.35}};
  for (const SamplingOptions& options : all) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> logits(9);
      for (float& logit : logits) logit = round % 3 ? 2 * normal(random) : std::round(normal(random));  // ties, too
      const std::vector<double> expected = probabilities(logits, options);
      std::vector<double> found(logits.size(), 0);
      constexpr int draws = 4000;  // evenly over [0, 1): every share is off by two draws at most
      for (int i = 0; i < draws; ++i) found[size_t(draw_token(logits, options, (i + 0.5) / draws))] += 1.0 / draws;
      for (size_t i = 0; i < logits.size(); ++i)
        EXPECT_NEAR(found[i], expected[i], 2.0 / draws) << "token " << i << " temperature " << options.temperature
                                                        << " k " << options.top_k << " p " << options.top_p;
    }
  }
}

TEST(Sampling, TakesTheLowerTokenOfEqualOnes) {
  const std::vector<float> equal(6, 1.5f);
  EXPECT_EQ(draw_token(equal, {.temperature = 0}, 0.9), 0);
  for (const double uniform : {0.0, 0.3, 0.49}) EXPECT_EQ(draw_token(equal, {1.0, 2, 1.0}, uniform), 0);
  for (const double uniform : {0.51, 0.99999}) EXPECT_EQ(draw_token(equal, {1.0, 2, 1.0}, uniform), 1);
  EXPECT_EQ(draw_token(equal, {1.0, 0, 0.1}, 0.999), 0);  // a sixth is enough
  const std::vector<float> later = {0, 3, 1, 3};
  EXPECT_EQ(draw_token(later, {.temperature = 0}, 0.9), 1);
  EXPECT_EQ(draw_token(later, {1.0, 1, 1.0}, 0.9), 1);
}

TEST(Sampling, HoldsAtTheEdges) {
  const std::vector<float> far = {-3e38f, 3e38f, 0.0f};
  EXPECT_EQ(draw_token(far, {1e-300, 0, 1.0}, 0.999), 1);
  EXPECT_EQ(draw_token(far, {1e-300, 2, 0.5}, 0.0), 1);
  EXPECT_EQ(draw_token(std::vector<float>{-7.0f}, {1.0, 40, 0.1}, 0.999), 0);
  // At a great temperature all are alike.
  EXPECT_EQ(draw_token(std::vector<float>{5, -5, 1, 0}, {1e30, 0, 1.0}, 0.6), 2);
}

TEST(Sampling, RefusesLogitsThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> logits = {1.0f, bad, 2.0f};
    EXPECT_THAT(error_of([&] { draw_token(logits, {}, 0.5); }),
                AllOf(HasSubstr("the logit of token 1 is no finite number"), HasSubstr("evaluate the checkpoint")));
  }
}

}  // namespace
}  // namespace hetsynth
