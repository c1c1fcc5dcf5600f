// Operators that pick, place and move elements: values by loops written out here, gradients, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(IndexOperators, GatherReadsWhatTheIndicesName) {
  Evaluation value;
  Tensor x = value.counting({2, 3});
  EXPECT_THAT(value(gather(x, 1, value.indices({2, 2}, {2, 0, 1, 1}))), ElementsAre(2, 0, 4, 4));
  EXPECT_THAT(value(gather(x, 0, value.indices({1, 3}, {1, 0, 1}))), ElementsAre(3, 1, 5));
  EXPECT_THAT(value(gather(x, -1, value.indices({2, 1}, {-1, 3}))), ElementsAre(0, 0)) << "outside reads 0";
}

TEST(IndexOperators, ScatterAddAddsUpWhatHasOneIndex) {
  Evaluation value;
  Tensor x = value.counting({2, 3});
  EXPECT_THAT(value(scatter_add(x, 1, value.indices({2, 3}, {0, 0, 1, 1, 1, 1}), 2)), ElementsAre(1, 2, 0, 12));
  EXPECT_THAT(value(scatter_add(x, 0, value.indices({2, 3}, {2, 0, 2, 2, 0, 5}), 3)),
              ElementsAre(0, 5, 0, 0, 0, 0, 3, 0, 2));
}

TEST(IndexOperators, GatherAndScatterAreEachOthersGradient) {
  Evaluation value;
  Tensor x = value.counting({2, 3}), at = value.indices({2, 2}, {2, 2, 0, 1}),
         w = value.leaf({2, 2}, {1, 10, 100, 1000});
  EXPECT_THAT(value(gradients(sum(gather(x, 1, at) * w), {x})[0]), ElementsAre(0, 0, 11, 100, 1000, 0));
  Tensor y = value.counting({2, 2}), v = value.counting({2, 3});
  EXPECT_THAT(value(gradients(sum(scatter_add(y, 1, at, 3) * v), {y})[0]), ElementsAre(2, 2, 3, 4));
}

TEST(IndexOperators, EmbeddingBags) {
  Evaluation value;
  Tensor table = value.counting({4, 2}), at = value.indices({2, 3}, {0, 1, 3, 2, 2, -1});
  EXPECT_THAT(value(embedding_bag(table, at)), ElementsAre(8, 11, 8, 10));
  EXPECT_THAT(value(embedding_bag(table, at, BagMode::mean)),
              Pointwise(DoubleNear(exact), Values{8. / 3, 11. / 3, 8. / 3, 10. / 3}));
  EXPECT_THAT(value(gradients(sum(embedding_bag(table, at) * value.leaf({2, 1}, {1, 10})), {table})[0]),
              ElementsAre(1, 1, 1, 1, 20, 20, 1, 1));
}

TEST(IndexOperators, ArgmaxIsTheFirstOfEqualOnes) {
  Evaluation value;
  Tensor x = value.leaf({2, 4}, {1, 7, 7, 0, -3, -5, -3, -4});
  EXPECT_THAT(value(argmax(x, -1)), ElementsAre(1, 0));
  EXPECT_THAT(value(argmin(x, -1)), ElementsAre(3, 1));
  EXPECT_THAT(value(argmax(x, 0)), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(argmax(x, 1, true).shape(), (Dims{2, 1}));
  EXPECT_EQ(argmax(x, 1).dtype(), DType::i32);
  EXPECT_THAT(value(argmax(value.leaf({3, 1}, {1, 2, 3}), 1)), ElementsAre(0, 0, 0));
  EXPECT_FALSE(gradients(sum(to_float(argmax(x, 1))), {x})[0].defined());
}

/// The k largest of a line by sorting, earlier ones first among equals.
std::vector<size_t> sorted_order(const Values& line) {
  std::vector<size_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return line[a] > line[b]; });
  return order;
}

TEST(IndexOperators, TopKEqualsSorting) {
  for (int64_t extent : {1, 5, 40, 600})
    for (int64_t k : {1, 3}) {
      if (k > extent) continue;
      Evaluation value;
      Values line(static_cast<size_t>(extent));
      for (size_t i = 0; i < line.size(); ++i) line[i] = double((i * 7919) % 101) - 50;  // with ties
      std::vector<size_t> order = sorted_order(line);
      auto [values, indices] = top_k(value.leaf({extent}, line), k);
      ASSERT_EQ(values.shape(), Dims{k});
      Values found = value(values), at = value(indices);
      for (size_t i = 0; i < size_t(k); ++i) {
        EXPECT_EQ(at[i], double(order[i])) << extent << " " << k;
        EXPECT_EQ(found[i], line[order[i]]);
      }
    }
}

TEST(IndexOperators, TopKAlongAnyDimensionAndItsGradient) {
  Evaluation value;
  Tensor x = value.leaf({3, 2}, {5, 1, 2, 9, 7, 4});
  TopK best = top_k(x, 2, 0);
  EXPECT_THAT(value(best.values), ElementsAre(7, 9, 5, 4));
  EXPECT_THAT(value(best.indices), ElementsAre(2, 1, 0, 2));
  Tensor loss = sum(best.values * value.leaf({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(value(gradients(loss, {x})[0]), ElementsAre(3, 0, 0, 2, 1, 4));
}

TEST(IndexOperators, RunningSums) {
  for (int64_t extent : {1, 7, 64, 96, 101, 1000}) {
    Evaluation value;
    Values line(static_cast<size_t>(extent)), wanted, exclusive;
    double total = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      line[i] = double((i * 31) % 17) - 8;
      exclusive.push_back(total);
      wanted.push_back(total += line[i]);
    }
    Tensor x = value.leaf({extent}, line);
    EXPECT_EQ(value(cumsum(x, 0)), wanted) << extent;
    EXPECT_EQ(value(cumsum(x, 0, true)), exclusive) << extent;
  }
  Evaluation value;
  Tensor x = value.counting({2, 3});
  EXPECT_THAT(value(cumsum(x, 1)), ElementsAre(0, 1, 3, 3, 7, 12));
  EXPECT_THAT(value(cumsum(x, 0)), ElementsAre(0, 1, 2, 3, 5, 7));
  EXPECT_THAT(value(gradients(sum(cumsum(x, 1)), {x})[0]), ElementsAre(3, 2, 1, 3, 2, 1));
  Tensor y = value.counting({96});
  Values slope = value(gradients(sum(cumsum(y, 0)), {y})[0]);
  for (size_t i = 0; i < 96; ++i) EXPECT_EQ(slope[i], double(96 - i));
}

TEST(IndexOperators, RollsAndBorders) {
  Evaluation value;
  Tensor x = value.counting({2, 3}), line = value.leaf({3}, {1, 2, 3});
  EXPECT_THAT(value(roll(x, 1, 1)), ElementsAre(2, 0, 1, 5, 3, 4));
  EXPECT_THAT(value(roll(x, -1, 1)), ElementsAre(1, 2, 0, 4, 5, 3));
  EXPECT_THAT(value(roll(x, 7, 0)), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_EQ(roll(x, 3, 1).node(), x.node());
  EXPECT_THAT(value(roll(x, {1, -1}, {0, 1})), ElementsAre(4, 5, 3, 1, 2, 0));
  EXPECT_THAT(value(roll(x, {-1, 1}, {-1, -2})), ElementsAre(4, 5, 3, 1, 2, 0));
  EXPECT_THAT(value(pad(line, 0, 1, 2, -5.0)), ElementsAre(-5, 1, 2, 3, -5, -5));
  EXPECT_THAT(value(pad(line, 0, 2, 2, PadMode::reflect)), ElementsAre(3, 2, 1, 2, 3, 2, 1));
  EXPECT_THAT(value(pad(line, 0, 2, 1, PadMode::replicate)), ElementsAre(1, 1, 1, 2, 3, 3));
  EXPECT_THAT(value(pad(line, 0, 3, 1, PadMode::circular)), ElementsAre(1, 2, 3, 1, 2, 3, 1));
  Tensor loss = sum(pad(line, 0, 2, 0, PadMode::reflect) * value.leaf({5}, {1, 10, 100, 1000, 10000}));
  EXPECT_THAT(value(gradients(loss, {line})[0]), ElementsAre(100, 1010, 10001));
}

TEST(IndexOperators, WindowsAreCutAndPutTogether) {
  Evaluation value;
  Tensor x = value.counting({2, 4, 6, 3});
  Tensor windows = window_partition(x, 2);
  EXPECT_EQ(windows.shape(), (Dims{12, 4, 3}));
  Values cut = value(windows);
  // Window 4 of the first image: rows 2..3, columns 2..3; its last place is row 3, column 3.
  EXPECT_EQ(cut[size_t((4 * 4 + 3) * 3)], (3 * 6 + 3) * 3);
  EXPECT_EQ(value(window_reverse(windows, 4, 6)), value(x));
}

/// The bucket of T5 as the paper's implementation computes it.
int64_t t5_bucket(int64_t relative, bool bidirectional, int64_t buckets, int64_t max_distance) {
  int64_t first = 0, n = -relative;
  if (bidirectional) {
    buckets /= 2;
    if (n < 0) first = buckets;
    n = std::abs(n);
  } else {
    n = std::max<int64_t>(n, 0);
  }
  int64_t exact_buckets = buckets / 2;
  if (n < exact_buckets) return first + n;
  double log_ratio =
      std::log(double(n) / double(exact_buckets)) / std::log(double(max_distance) / double(exact_buckets));
  return first + std::min(exact_buckets + int64_t(log_ratio * double(buckets - exact_buckets) + 1e-9), buckets - 1);
}

TEST(IndexOperators, RelativePositionBiasFollowsT5) {
  for (bool bidirectional : {true, false}) {
    Evaluation value;
    constexpr int64_t queries = 150, keys = 140, buckets = 32;
    Tensor table = value.counting({buckets, 1});
    Values bias = value(relative_position_bias(table, queries, keys, {.bidirectional = bidirectional}));
    for (int64_t q = 0; q < queries; ++q)
      for (int64_t k = 0; k < keys; ++k)
        ASSERT_EQ(bias[size_t(q * keys + k)], double(t5_bucket(k - q, bidirectional, buckets, 128))) << q << " " << k;
  }
}

TEST(IndexOperators, WindowBiasNamesOffsets) {
  Evaluation value;
  constexpr int64_t size = 3, places = size * size, offsets = (2 * size - 1) * (2 * size - 1);
  Tensor table = value.counting({offsets, 2});
  Tensor bias = window_position_bias(table, size);
  ASSERT_EQ(bias.shape(), (Dims{2, places, places}));
  Values found = value(bias);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t a = 0; a < places; ++a)
      for (int64_t b = 0; b < places; ++b) {
        int64_t rows = a / size - b / size + size - 1, columns = a % size - b % size + size - 1;
        EXPECT_EQ(found[size_t((h * places + a) * places + b)], double((rows * (2 * size - 1) + columns) * 2 + h));
      }
}

class IndexErrors : public ::testing::Test {
 protected:
  Evaluation value;
  Tensor x = value.counting({2, 3});
  Tensor at(const Dims& shape) { return value.indices(shape, Values(size_t(element_count(shape)), 0)); }
};

TEST_F(IndexErrors, GatherAndScatter) {
  EXPECT_THAT(error_of([&] { gather(x, 2, at({2, 3})); }), HasSubstr("[gather] there is no dimension 2"));
  EXPECT_THAT(error_of([&] {
                gather(x, 1, at({3, 3}));
              }),
              AllOf(HasSubstr("[gather] indices do not fit: [3,3] for [2,3]"), HasSubstr("broadcast(indices, shape)")));
  EXPECT_THAT(error_of([&] { gather(x, 0, at({5})); }), HasSubstr("embedding(x, indices) picks whole rows"));
  EXPECT_THAT(error_of([&] { gather(x, 1, at({2})); }),
              HasSubstr("indices like [2,3] in all dimensions but 1: [2,any]"));
  EXPECT_THAT(error_of([&] { gather(x, 0, at({5})); }),
              AllOf(HasSubstr("[any,3]"), HasSubstr("broadcast(reshape(indices, {5,1}), {5,3})")));
  EXPECT_THAT(error_of([&] { gather(x, 1, x); }), HasSubstr("[gather] argument 2 must hold indices"));
  EXPECT_THAT(error_of([&] { gather(at({2, 3}), 1, at({2, 3})); }), HasSubstr("[gather] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] {
                scatter_add(x, 1, at({2, 2}), 4);
              }),
              AllOf(HasSubstr("[scatter_add] every value needs an index: indices [2,2] for values [2,3]"),
                    HasSubstr("indices [2,3]"), HasSubstr("broadcast(indices, shape)")));
  EXPECT_THAT(error_of([&] { scatter_add(x, 0, at({2}), 4); }),
              AllOf(HasSubstr("indices [2] for values [2,3]"), HasSubstr("expected: indices [2,3]"),
                    HasSubstr("broadcast(reshape(indices, {2,1}), {2,3}) repeats them"),
                    ::testing::Not(HasSubstr("embedding"))));
  EXPECT_THAT(error_of([&] {
                scatter_add(x, 1, at({2, 3}), 0);
              }),
              HasSubstr("[scatter_add] the result has an impossible shape"));
}

TEST_F(IndexErrors, BagsAndSearches) {
  EXPECT_THAT(error_of([&] {
                embedding_bag(value.counting({3}), at({2, 3}));
              }),
              HasSubstr("[embedding_bag] argument 1 must be a table"));
  EXPECT_THAT(error_of([&] { embedding_bag(x, at({})); }),
              HasSubstr("[embedding_bag] argument 2 has too few dimensions"));
  EXPECT_THAT(error_of([&] { argmax(x, 5); }), HasSubstr("[argmax] there is no dimension 5"));
  EXPECT_THAT(error_of([&] { top_k(x, 4); }), HasSubstr("[top_k] there are no 4 largest among 3 elements"));
  EXPECT_THAT(error_of([&] { top_k(x, 0); }), HasSubstr("1 <= k <= 3"));
  EXPECT_THAT(error_of([&] { top_k(at({4}), 1); }), HasSubstr("[top_k] argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { cumsum(x, -3); }), HasSubstr("[cumsum] there is no dimension -3"));
}

TEST_F(IndexErrors, BordersAndWindows) {
  EXPECT_THAT(error_of([&] { roll(x, 1, 2); }), HasSubstr("[roll] there is no dimension 2"));
  EXPECT_THAT(error_of([&] {
                roll(x, {1, 2}, {0});
              }),
              AllOf(HasSubstr("[roll] there are not as many shifts as dimensions"), HasSubstr("expected: 1 shifts"),
                    HasSubstr("found:    2")));
  EXPECT_THAT(error_of([&] { roll(x, {1, 2}, {0, -2}); }), HasSubstr("[roll] dimension"));
  EXPECT_THAT(error_of([&] { pad(x, 1, 3, 0, PadMode::reflect); }),
              HasSubstr("[pad] dimension 1 of [2,3] has not enough elements to pad with"));
  EXPECT_THAT(error_of([&] { pad(x, 1, 0, -1, PadMode::replicate); }), HasSubstr("[pad]"));
  EXPECT_THAT(error_of([&] {
                window_partition(value.counting({1, 4, 6, 1}), 4);
              }),
              HasSubstr("[window_partition] windows of 4 x 4 do not cover 4 x 6"));
  EXPECT_THAT(error_of([&] { window_partition(x, 1); }), HasSubstr("[batch, height, width, channels]"));
  EXPECT_THAT(error_of([&] {
                window_reverse(value.counting({3, 4, 1}), 4, 4);
              }),
              HasSubstr("[window_reverse] 3 windows of 4 elements are no images of 4 x 4"));
  EXPECT_THAT(error_of([&] {
                relative_position_bias(value.counting({7, 2}), 4, 4);
              }),
              HasSubstr("[relative_position_bias] the table has another shape"));
  EXPECT_THAT(error_of([&] {
                relative_position_bias(value.counting({32, 2}), 4, 4, {.max_distance = 8});
              }),
              HasSubstr("max_distance leaves nothing"));
  EXPECT_THAT(error_of([&] { window_position_bias(value.counting({24, 2}), 3); }), HasSubstr("[25, heads]"));
}

}  // namespace
}  // namespace hetsynth
