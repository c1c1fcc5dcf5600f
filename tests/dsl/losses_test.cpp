// Losses and attention: values by formulas written out here, gradients by differences, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "dsl/transform/differentiate.h"
#include "tests/dsl/evaluation.h"

namespace hetsynth {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Values draws(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Values out;
  for (size_t i = 0; i < count; ++i) out.push_back(std::uniform_real_distribution<double>(-2, 2)(random));
  return out;
}

/// Mean over the counted rows of -sum(wanted log softmax).
double cross_entropy_of(const Values& logits, const std::vector<int>& labels, double smoothing, int ignored) {
  size_t classes = logits.size() / labels.size();
  double total = 0, count = 0;
  for (size_t r = 0; r < labels.size(); ++r) {
    if (labels[r] == ignored) continue;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    for (size_t c = 0; c < classes; ++c) {
      double wanted = smoothing / double(classes) + (int(c) == labels[r] ? 1 - smoothing : 0);
      total -= wanted * (logits[r * classes + c] - std::log(sum));
    }
    count += 1;
  }
  return count > 0 ? total / count : 0;
}

TEST(CrossEntropy, SmoothsAndIgnoresLabels) {
  const Values logits = draws(20, 1);
  const std::vector<int> labels = {3, 0, -100, 2};
  for (double smoothing : {0.0, 0.1})
    for (bool ignores : {true, false}) {
      std::vector<int> used = labels;
      if (!ignores) used[2] = 1;
      CrossEntropyOptions options{.label_smoothing = smoothing};
      if (ignores) options.ignored_label = -100;
      auto loss = [&](Evaluation& value, Tensor x) {
        return cross_entropy(x, value.indices({4}, Values(used.begin(), used.end())), options);
      };
      expect_gradient({4, 5}, logits, loss);
      Evaluation value;
      EXPECT_NEAR(value(loss(value, value.leaf({4, 5}, logits)))[0], cross_entropy_of(logits, used, smoothing, -100),
                  exact);
    }
}

TEST(CrossEntropy, IsZeroWhereEveryLabelIsIgnored) {
  Evaluation value;
  Tensor x = value.leaf({2, 3}, draws(6, 2)), labels = value.indices({2}, {7, 7});
  Tensor loss = cross_entropy(x, labels, {.ignored_label = 7});
  EXPECT_THAT(value(loss), ElementsAre(0));
  EXPECT_THAT(value(gradients(loss, {x})[0]), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(MeanSquaredError, ValueAndGradient) {
  Evaluation value;
  Tensor x = value.leaf({2, 2}, {1, 2, 3, 4}), t = value.leaf({2, 2}, {1, 0, 3, 1});
  Tensor loss = mean_squared_error(x, t);
  EXPECT_THAT(value(loss), ElementsAre((4 + 9) / 4.0));
  EXPECT_THAT(value(gradients(loss, {x})[0]), ElementsAre(0, 1, 0, 1.5));
  EXPECT_THAT(value(gradients(loss, {t})[0]), ElementsAre(0, -1, 0, -1.5));
}

TEST(BinaryCrossEntropy, BothFormsAgreeWithTheFormula) {
  const Values logits = draws(6, 3), targets = {0, 1, 0.25, 1, 0, 0.5};
  double wanted = 0;
  for (size_t i = 0; i < 6; ++i) {
    double p = 1 / (1 + std::exp(-logits[i]));
    wanted -= (targets[i] * std::log(p) + (1 - targets[i]) * std::log(1 - p)) / 6;
  }
  expect_gradient({2, 3}, logits, [&](Evaluation& v, Tensor in) {
    return binary_cross_entropy_with_logits(in, v.leaf({2, 3}, targets));
  });
  expect_gradient({2, 3}, logits, [&](Evaluation& v, Tensor in) {
    return binary_cross_entropy(sigmoid(in), v.leaf({2, 3}, targets));
  });
  Evaluation value;
  Tensor x = value.leaf({2, 3}, logits), t = value.leaf({2, 3}, targets);
  EXPECT_NEAR(value(binary_cross_entropy_with_logits(x, t))[0], wanted, exact);
  EXPECT_NEAR(value(binary_cross_entropy(sigmoid(x), t))[0], wanted, exact);
}

TEST(BinaryCrossEntropy, StaysFiniteForWrongCertainty) {
  Evaluation value;
  EXPECT_THAT(value(binary_cross_entropy(value.leaf({2}, {0, 1}), value.leaf({2}, {1, 0}))), ElementsAre(100));
  EXPECT_THAT(value(binary_cross_entropy_with_logits(value.leaf({2}, {-2000, 2000}), value.leaf({2}, {1, 0}))),
              ElementsAre(2000));
}

struct AttentionCase {
  int64_t batch = 2, queries = 3, keys = 4, heads = 4, groups = 2, width = 2, value_width = 3;
};

/// Loops over everything, as the definition reads.
Values attention_of(const AttentionCase& c, const Values& q, const Values& k, const Values& v, const Values& bias,
                    bool causal, double scale) {
  Values out;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t t = 0; t < c.queries; ++t)
      for (int64_t h = 0; h < c.heads; ++h) {
        int64_t g = h / (c.heads / c.groups);
        Values weight;
        double total = 0;
        for (int64_t s = 0; s < c.keys; ++s) {
          double dot = 0;
          for (int64_t d = 0; d < c.width; ++d)
            dot += q[size_t(((b * c.queries + t) * c.heads + h) * c.width + d)] *
                   k[size_t(((b * c.keys + s) * c.groups + g) * c.width + d)];
          dot = dot * scale + (bias.empty() ? 0 : bias[size_t((h * c.queries + t) * c.keys + s)]);
          weight.push_back(causal && s > t ? 0 : std::exp(dot));
          total += weight.back();
        }
        for (int64_t e = 0; e < c.value_width; ++e) {
          double sum = 0;
          for (int64_t s = 0; s < c.keys; ++s)
            sum += weight[size_t(s)] / total * v[size_t(((b * c.keys + s) * c.groups + g) * c.value_width + e)];
          out.push_back(sum);
        }
      }
  return out;
}

TEST(Attention, EqualsItsDefinitionForEveryGrouping) {
  for (int64_t groups : {1, 2, 4})
    for (bool causal : {false, true})
      for (bool biased : {false, true}) {
        AttentionCase c;
        c.groups = groups;
        if (causal) c.keys = c.queries;
        size_t positions = size_t(c.batch * c.queries), others = size_t(c.batch * c.keys);
        Values q = draws(positions * size_t(c.heads * c.width), 1), k = draws(others * size_t(groups * c.width), 2);
        Values v = draws(others * size_t(groups * c.value_width), 3), bias;
        if (biased) bias = draws(size_t(c.heads * c.queries * c.keys), 4);
        auto run = [&](Evaluation& value, Tensor query) {
          AttentionOptions options{.causal = causal, .scale = biased ? 0.3 : 0};
          if (biased) options.bias = value.leaf({c.heads, c.queries, c.keys}, bias);
          return attention(query, value.leaf({c.batch, c.keys, groups, c.width}, k),
                           value.leaf({c.batch, c.keys, groups, c.value_width}, v), options);
        };
        Dims shape = {c.batch, c.queries, c.heads, c.width};
        expect_gradient(shape, q, [&](Evaluation& e, Tensor in) { return sum(square(run(e, in))); });
        Evaluation value;
        Tensor out = run(value, value.leaf(shape, q));
        EXPECT_EQ(out.shape(), (Dims{c.batch, c.queries, c.heads, c.value_width}));
        EXPECT_THAT(value(out), Pointwise(DoubleNear(exact),
                                          attention_of(c, q, k, v, bias, causal, biased ? 0.3 : 1 / std::sqrt(2.0))));
      }
}

class LossErrors : public ::testing::Test {
 protected:
  Evaluation value;
};

TEST_F(LossErrors, NameWhatDoesNotFit) {
  Tensor x = value.counting({2, 3}), i = value.indices({2}, {0, 1});
  EXPECT_THAT(error_of([&] { mean_squared_error(x, value.counting({3})); }),
              HasSubstr("[mean_squared_error] predictions and targets differ: [2,3] and [3]"));
  EXPECT_THAT(error_of([&] { mean_squared_error(i, i); }), HasSubstr("argument 1 must hold numbers"));
  EXPECT_THAT(error_of([&] { binary_cross_entropy(x, i); }),
              HasSubstr("[binary_cross_entropy] argument 2 must hold numbers"));
  EXPECT_THAT(error_of([&] { binary_cross_entropy_with_logits(x, 1); }), HasSubstr("predictions and targets differ"));
  EXPECT_THAT(error_of([&] { cross_entropy(x, i, {.label_smoothing = 1}); }),
              HasSubstr("[cross_entropy] label_smoothing is out of range"));
}

TEST_F(LossErrors, Attention) {
  auto q = [&](const Dims& shape) { return value.counting(shape); };
  auto fails = [&](const Dims& a, const Dims& b, const Dims& c, AttentionOptions o = {}) {
    return error_of([&] { attention(q(a), q(b), q(c), o); });
  };
  EXPECT_THAT(fails({2, 3, 4}, {2, 3, 4}, {2, 3, 4}),
              HasSubstr("[attention] query, key and value have four dimensions"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {1, 3, 4, 8}, {1, 3, 4, 8}), HasSubstr("batches differ"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 5, 4, 8}, {2, 6, 4, 8}), HasSubstr("there are not as many keys as values"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 3, 4, 6}, {2, 3, 4, 8}), HasSubstr("queries and keys differ in width"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 3, 2, 8}, {2, 3, 4, 8}), HasSubstr("keys and values differ in groups"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 3, 3, 8}, {2, 3, 3, 8}), HasSubstr("heads do not fall into groups"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 5, 4, 8}, {2, 5, 4, 8}, {.causal = true}), HasSubstr("as many keys as queries"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 3, 4, 8}, {2, 3, 4, 8}, {.bias = q({5, 3, 3})}), HasSubstr("do not broadcast"));
  EXPECT_THAT(fails({2, 3, 1, 8}, {2, 3, 1, 8}, {2, 3, 1, 8}, {.bias = q({5, 3, 3})}),
              HasSubstr("the bias does not fit the scores"));
  EXPECT_THAT(fails({2, 3, 4, 8}, {2, 3, 4, 8}, {2, 3, 4, 8}, {.dropout = 1}), HasSubstr("[dropout]"));
}

}  // namespace
}  // namespace hetsynth
