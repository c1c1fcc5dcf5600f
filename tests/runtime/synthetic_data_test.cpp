// Synthetic data: made by counting, so that every part of a batch can be asked for alone, and with something to learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <set>

#include "dsl/ir/trace.h"
#include "hetsynth/hetsynth.h"
#include "runtime/data/batch_source.h"
#include "runtime/rank/host_tensor.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

/// The inputs that a batch function declares.
template <class Batch>
Program inputs_of(Batch batch) {
  Trace trace("model.cpp");
  batch();
  return trace.program;
}

std::vector<double> values(const Program& program, int node, int64_t step = 0, uint64_t seed = 1) {
  return whole_batch(program, *open_data(program, {"", seed}), step).at(node).values;
}

const std::vector<Program>& programs() {
  static const std::vector<Program> all = {
      inputs_of([] { synthetic_tokens(5, 7, 40); }),
      inputs_of([] { token_batch(3, 4, 11); }),
      inputs_of([] { labelled_tokens(6, 5, 30, 3); }),
      inputs_of([] { synthetic_images(4, 3, 6, 5, 10); }),
      inputs_of([] { image_batch(3, 1, 1, 2, 4); }),
      inputs_of([] { translation_batch(4, 5, 7, 20, 30); }),
      inputs_of([] {
        table_batch(5, 3, {4, 1, 1000});
      }),
      inputs_of([] {
        feature_batch(4, {{"dose", 1}, {"cell", 9}});
      }),
      inputs_of([] {
        input("words", {3, 4}, i32, {.classes = 9});
        input("scores", {3, 2, 2}, f32);
      }),
  };
  return all;
}

TEST(SyntheticData, PartsEqualTheWholeForEveryBatchFunction) {
  EXPECT_TRUE(rc::check([] {
    const Program& program = programs()[*rc::gen::inRange<size_t>(0, programs().size())];
    const auto data = open_data(program, {"", 1});
    const auto step = *rc::gen::inRange<int64_t>(0, 50);
    const Node& node = program.nodes[*rc::gen::inRange<size_t>(0, program.nodes.size())];
    std::vector<Range> ranges;
    for (const int64_t extent : node.type.shape) {
      const auto lo = *rc::gen::inRange<int64_t>(0, extent + 1);
      ranges.push_back({lo, *rc::gen::inRange<int64_t>(lo, extent + 1)});
    }
    std::vector<std::byte> part(static_cast<size_t>(part_elements(ranges) * 4)), expected(part.size());
    data->fill(node, ranges, step, part);
    copy_part_out(to_host_tensor(whole_batch(program, *data, step).at(node.id), node.type.dtype), ranges, expected);
    RC_ASSERT(part == expected);
  }));
}

TEST(SyntheticData, IntegersStayBelowTheirClasses) {
  for (const Program& program : programs()) {
    for (const Node& node : program.nodes) {
      if (node.type.dtype != DType::i32) continue;
      for (int64_t step = 0; step < 20; ++step) {
        for (const double value : values(program, node.id, step)) {
          ASSERT_GE(value, 0) << node.name;
          ASSERT_LT(value, static_cast<double>(node.data.classes)) << node.name;
        }
      }
    }
  }
}

TEST(SyntheticData, DependsOnTheSampleAndNotOnTheBatchSize) {
  const Program small = inputs_of([] { synthetic_images(2, 3, 4, 4, 10); });
  const Program large = inputs_of([] { synthetic_images(6, 3, 4, 4, 10); });
  for (const int node : {0, 1}) {
    std::vector<double> joined;
    for (int64_t step = 3; step < 6; ++step) {
      const std::vector<double> part = values(small, node, step);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, values(large, node, 1));
    EXPECT_NE(joined, values(large, node, 1, 2));
  }
}

TEST(SyntheticData, TargetsAreTheTokensMovedByOne) {
  const Program program = inputs_of([] { synthetic_tokens(8, 20, 100); });
  const std::vector<double> tokens = values(program, 0), targets = values(program, 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i % 20 != 19) {
      EXPECT_EQ(targets[i], tokens[i + 1]);
    }
  }
}

// Of the transitions from one token, about half go to its first successor.
TEST(SyntheticData, TokensFollowAChain) {
  const Program program = inputs_of([] { synthetic_tokens(200, 50, 64); });
  std::map<double, std::map<double, int>> counts;
  const std::vector<double> tokens = values(program, 0), targets = values(program, 1, 0);
  for (size_t i = 0; i < tokens.size(); ++i) ++counts[tokens[i]][targets[i]];
  int total = 0, likeliest = 0;
  for (const auto& [token, successors] : counts) {
    int most = 0;
    for (const auto& [next, count] : successors) total += count, most = std::max(most, count);
    likeliest += most;
  }
  // 10,000 transitions; 1/2 or more by the first successor (successors may coincide), a redraw adds a little.
  EXPECT_GT(likeliest, 0.48 * total);
  EXPECT_LT(likeliest, 0.8 * total);
}

// Pixels have mean 0 and variance 1; those of one class are alike and those of two are not.
TEST(SyntheticData, ImagesShowTheirClass) {
  const Program program = inputs_of([] { synthetic_images(300, 2, 8, 8, 3); });
  const std::vector<double> pixels = values(program, 0), labels = values(program, 1);
  constexpr size_t size = 2 * 8 * 8;
  std::vector<std::vector<double>> means(3, std::vector<double>(size));
  std::vector<int> counts(3);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<size_t>(labels[i]);
    ++counts[label];
    for (size_t p = 0; p < size; ++p) {
      const double value = pixels[i * size + p];
      means[label][p] += value, sum += value, squares += value * value;
    }
  }
  const double total = static_cast<double>(pixels.size());
  EXPECT_NEAR(sum / total, 0, 0.25);      // 96 fields of patterns weigh as 96 draws of deviation 0.7: 3.5 errors
  EXPECT_NEAR(squares / total, 1, 0.35);  // the same, of the squares
  for (int count : counts) EXPECT_NEAR(count, 100, 41);  // 5 binomial deviations
  // The nearest class mean is the label's.
  int right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    size_t best = 0;
    double least = HUGE_VAL;
    for (size_t c = 0; c < 3; ++c) {
      double distance = 0;
      for (size_t p = 0; p < size; ++p) distance += std::pow(pixels[i * size + p] - means[c][p] / counts[c], 2);
      if (distance < least) least = distance, best = c;
    }
    right += best == static_cast<size_t>(labels[i]);
  }
  EXPECT_EQ(right, 300);
}

TEST(SyntheticData, TranslationsGoBackwardsWordByWord) {
  const Program program = inputs_of([] { translation_batch(50, 6, 6, 40, 50); });
  const std::vector<double> source = values(program, 0), input = values(program, 1), targets = values(program, 2);
  std::map<double, double> dictionary;
  for (size_t i = 0; i < source.size(); ++i) {
    const size_t row = i / 6 * 6, column = i % 6;
    const double word = source[row + 5 - column];
    EXPECT_EQ(dictionary.emplace(word, targets[i]).first->second, targets[i]);
    EXPECT_EQ(input[i], column == 0 ? 1 : targets[i - 1]);
    EXPECT_GE(source[i], 2);
    EXPECT_GE(targets[i], 2);
  }
  EXPECT_GT(dictionary.size(), 10u);
}

TEST(SyntheticData, ResponsesFollowTheirRows) {
  const Program table = inputs_of([] { table_batch(400, 2, {5}); });
  const std::vector<double> clicks = values(table, 2);
  double ones = 0;
  for (const double click : clicks) {
    EXPECT_TRUE(click == 0 || click == 1);
    ones += click;
  }
  EXPECT_GT(ones, 60);
  EXPECT_LT(ones, 340);
  const Program features = inputs_of([] { feature_batch(300, {{"x", 1}}); });
  const std::vector<double> x = values(features, 0), y = values(features, 1);
  // One feature of weight w / |w|: the response is tanh(x) or tanh(-x).
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(std::abs(y[i]), std::abs(std::tanh(x[i])), 1e-6);
}

TEST(SyntheticData, InputsStayInTheirRange) {
  const Program program = inputs_of([] {
    input("steps", {200}, i32, {.lowest = -3, .highest = 4});
    input("labels", {200}, i32, {.classes = 5, .ignored = -100});
    input("share", {200}, f32, {.lowest = 2, .highest = 3});
    input("length", {200}, f32, {.lowest = 10});
    input("loss", {200}, f32, {.highest = -1});
    input("scores", {200}, f32);
  });
  for (int64_t step = 0; step < 5; ++step) {
    std::set<double> steps_met, labels_met;
    for (const double value : values(program, 0, step)) steps_met.insert(value);
    for (const double value : values(program, 1, step)) labels_met.insert(value);
    EXPECT_EQ(steps_met, (std::set<double>{-3, -2, -1, 0, 1, 2, 3, 4}));
    EXPECT_EQ(labels_met, (std::set<double>{-100, 0, 1, 2, 3, 4}));
    for (const int node : {2, 3, 4})
      for (const double value : values(program, node, step))
        EXPECT_TRUE(takes_real(program[node].data, static_cast<float>(value))) << value;
    double sum = 0, squares = 0;
    for (const double value : values(program, 5, step)) sum += value, squares += value * value;
    EXPECT_NEAR(sum / 200, 0, 0.3);
    EXPECT_NEAR(squares / 200, 1, 0.4);
  }
  EXPECT_NE(values(program, 0, 0), values(program, 0, 1));
  EXPECT_NE(values(program, 0, 0, 1), values(program, 0, 0, 2));
}

TEST(SyntheticData, SizesAreChecked) {
  const auto refusal = [](auto batch) { return error_of([&] { inputs_of(batch); }); };
  EXPECT_THAT(refusal([] { synthetic_images(4, 0, 6, 5, 10); }),
              HasSubstr("[synthetic_images] channels must be positive"));
  EXPECT_THAT(refusal([] { image_batch(4, 1, 6, 5, -1); }), HasSubstr("[image_batch] classes must be positive"));
  EXPECT_THAT(refusal([] { synthetic_tokens(4, 1, int64_t{1} << 40); }),
              HasSubstr("[synthetic_tokens] vocabulary is too large"));
  EXPECT_THAT(refusal([] { translation_batch(4, 5, 6, 2, 9); }),
              HasSubstr("[translation_batch] the source vocabulary is too small"));
  EXPECT_THAT(refusal([] { table_batch(4, 0, {}); }),
              HasSubstr("[table_batch] the number of numeric columns must be positive"));
  EXPECT_THAT(refusal([] { table_batch(4, 2, {3, 0}); }), HasSubstr("the size of category 1 must be positive"));
  EXPECT_THAT(refusal([] { feature_batch(4, {{"dose", 0}}); }), HasSubstr("the width of dose must be positive"));
}

}  // namespace
}  // namespace hetsynth
