// Convolution, pooling and normalisation of images, against loops written out here and finite differences.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "dsl/include/hetsynth/hetsynth.h"
#include "dsl/transform/differentiate.h"
#include "tests/dsl/operator_testing.h"
#include "tests/support/error_of.h"
#include "tests/support/fresh_parameter.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;

constexpr double exact = 1e-12;  // double against double: only the order of additions differs

class ImageOperators : public ::testing::Test {
 protected:
  Trace trace{"model.cpp"};
  Bindings leaves;
  std::mt19937 random{11};

  Tensor tensor(Dims shape) {  // by value: shapes of tensors move as the program grows
    Tensor t = fresh_parameter(shape);
    leaves[t.node()] = spread_values(shape, {}, false, random);
    return t;
  }
  const Array& given(Tensor t) const { return leaves.at(t.node()); }
  Array value(Tensor t) const { return interpret(trace.program, leaves, {})[t.node()]; }

  /// The gradient of sum(f * weight) by every leaf, at a few elements of each.
  void expect_true_gradients(Tensor f, const std::vector<Tensor>& by) {
    Tensor loss = sum(f * tensor(f.shape()));
    std::vector<Tensor> found = gradients(loss, by);
    for (size_t j = 0; j < by.size(); ++j) {
      Array all = value(found[j]);
      for (int draw = 0; draw < 12; ++draw) {
        size_t i = random() % all.values.size();
        double& element = leaves.at(by[j].node()).values[i];
        constexpr double h = 1e-5;
        double at = element;
        element = at + h;
        double up = value(loss).values[0];
        element = at - h;
        double down = value(loss).values[0];
        element = at;
        // Rounding of the difference and its third derivative: below 1e-8 of sums of some hundred terms.
        EXPECT_NEAR(all.values[i], (up - down) / (2 * h), 1e-6) << "input " << j << " element " << i;
      }
    }
  }
};

double at(const Array& a, int64_t n, int64_t c, int64_t y, int64_t x) {
  return a.values[size_t(((n * a.shape[1] + c) * a.shape[2] + y) * a.shape[3] + x)];
}
bool holds(const Array& a, int64_t y, int64_t x) { return y >= 0 && y < a.shape[2] && x >= 0 && x < a.shape[3]; }

struct Case {
  Dims image, kernel;
  Conv2d options;
};

/// The definition, as loops.
double convolved(const Array& image, const Array& kernel, const Conv2d& o, int64_t n, int64_t out, int64_t y,
                 int64_t x) {
  int64_t per_group = kernel.shape[0] / o.groups, inputs = kernel.shape[1];
  double total = 0;
  for (int64_t c = 0; c < inputs; ++c)
    for (int64_t i = 0; i < kernel.shape[2]; ++i)
      for (int64_t j = 0; j < kernel.shape[3]; ++j) {
        int64_t row = y * o.stride.height + i * o.dilation.height - o.padding.height;
        int64_t column = x * o.stride.width + j * o.dilation.width - o.padding.width;
        if (holds(image, row, column))
          total += at(image, n, out / per_group * inputs + c, row, column) * at(kernel, out, c, i, j);
      }
  return total;
}

TEST_F(ImageOperators, ConvolutionIsItsDefinition) {
  const std::vector<Case> cases = {{{2, 3, 6, 5}, {4, 3, 3, 3}, {}},
                                   {{2, 3, 6, 5}, {4, 3, 3, 2}, {.padding = 1}},
                                   {{1, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2, .padding = {1, 0}}},
                                   {{2, 4, 7, 7}, {6, 2, 1, 7}, {.padding = {0, 3}, .groups = 2}},
                                   {{2, 3, 5, 6}, {3, 1, 3, 3}, {.stride = {1, 2}, .padding = 1, .groups = 3}},
                                   {{1, 2, 9, 9}, {2, 2, 3, 3}, {.padding = 2, .dilation = 2}},
                                   {{1, 2, 9, 10}, {2, 2, 3, 2}, {.stride = 2, .padding = 1, .dilation = {2, 3}}},
                                   {{2, 3, 4, 4}, {5, 3, 1, 1}, {.stride = 2}},
                                   {{1, 1, 11, 11}, {1, 1, 11, 11}, {}}};
  for (const Case& c : cases) {
    Tensor x = tensor(c.image), w = tensor(c.kernel), y = conv2d(x, w, c.options);
    Array found = value(y);
    SCOPED_TRACE(text(c.image) + text(c.kernel) + " -> " + text(found.shape));
    int64_t rows = c.image[2] + 2 * c.options.padding.height - c.options.dilation.height * (c.kernel[2] - 1);
    EXPECT_EQ(found.shape[2], (rows - 1) / c.options.stride.height + 1);
    size_t i = 0;
    for (int64_t n = 0; n < found.shape[0]; ++n)
      for (int64_t o = 0; o < found.shape[1]; ++o)
        for (int64_t row = 0; row < found.shape[2]; ++row)
          for (int64_t column = 0; column < found.shape[3]; ++column)
            ASSERT_NEAR(found.values[i++], convolved(given(x), given(w), c.options, n, o, row, column), exact);
    expect_true_gradients(y, {x, w});
  }
}

TEST_F(ImageOperators, TransposedConvolutionIsTheGradientOfConvolutionByItsImage) {
  for (const Conv2d& o : {Conv2d{}, Conv2d{.stride = 2, .padding = 1}, Conv2d{.stride = {3, 1}, .groups = 2},
                          Conv2d{.stride = 2, .padding = 1, .dilation = 2}}) {
    Tensor image = tensor({2, 4, 7, 9}), w = tensor({6, 4 / o.groups, 3, 3}), y = conv2d(image, w, o);
    Tensor dy = tensor(y.shape());
    Array expected = value(gradients(sum(y * dy), {image})[0]);
    auto rest = [&](int64_t extent, int64_t Extent2d::*d) {
      return (extent + 2 * o.padding.*d - o.dilation.*d * 2 - 1) % (o.stride.*d);
    };
    Tensor found = conv_transpose2d(dy, w,
                                    {.stride = o.stride,
                                     .padding = o.padding,
                                     .output_padding = {rest(7, &Extent2d::height), rest(9, &Extent2d::width)},
                                     .dilation = o.dilation,
                                     .groups = o.groups});
    ASSERT_EQ(found.shape(), image.shape());
    Array values = value(found);
    for (size_t i = 0; i < values.values.size(); ++i) ASSERT_NEAR(values.values[i], expected.values[i], exact);
    expect_true_gradients(found, {dy, w});
  }
}

TEST_F(ImageOperators, PoolsAreTheirDefinition) {
  struct PoolCase {
    Extent2d window;
    Pool2d options;
  };
  for (const PoolCase& c : std::vector<PoolCase>{{2, {}},
                                                 {3, {.stride = 2}},
                                                 {3, {.stride = 2, .padding = 1}},
                                                 {3, {.stride = 1, .padding = 1}},
                                                 {{1, 3}, {.stride = Extent2d(2, 1), .padding = {0, 1}}},
                                                 {2, {.stride = 3}}}) {
    Tensor x = tensor({2, 3, 8, 7}), largest = max_pool2d(x, c.window, c.options),
           mean = avg_pool2d(x, c.window, c.options);
    Array found_largest = value(largest), found_mean = value(mean);
    Extent2d stride = c.options.stride.value_or(c.window);
    size_t i = 0;
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t channel = 0; channel < 3; ++channel)
        for (int64_t y = 0; y < largest.size(2); ++y)
          for (int64_t z = 0; z < largest.size(3); ++z, ++i) {
            double top = -std::numeric_limits<double>::infinity(), total = 0;
            for (int64_t a = 0; a < c.window.height; ++a)
              for (int64_t b = 0; b < c.window.width; ++b) {
                int64_t row = y * stride.height + a - c.options.padding.height;
                int64_t column = z * stride.width + b - c.options.padding.width;
                if (!holds(given(x), row, column)) continue;
                top = std::max(top, at(given(x), n, channel, row, column));
                total += at(given(x), n, channel, row, column);
              }
            ASSERT_EQ(found_largest.values[i], top);
            ASSERT_NEAR(found_mean.values[i], total / double(c.window.height * c.window.width), exact);
          }
    EXPECT_EQ(i, found_largest.values.size());
    expect_true_gradients(largest, {x});
    expect_true_gradients(mean, {x});
  }
}

TEST_F(ImageOperators, EqualMaximaGiveTheirGradientToTheFirst) {
  Tensor x = tensor({1, 1, 3, 3});
  leaves[x.node()].values = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  Tensor dx = gradients(sum(max_pool2d(x, 2, {.stride = 1})), {x})[0];
  EXPECT_EQ(value(dx).values, (std::vector<double>{1, 1, 0, 1, 1, 0, 0, 0, 0}));
}

TEST_F(ImageOperators, AdaptiveWindowsCoverTheImage) {
  Tensor x = tensor({2, 2, 7, 6});
  for (Extent2d size : {Extent2d(1), Extent2d(3, 4), Extent2d(7, 3), Extent2d(9, 1), Extent2d(7, 6), Extent2d(1, 4)}) {
    Tensor y = adaptive_avg_pool2d(x, size);
    ASSERT_EQ(y.shape(), (Dims{2, 2, size.height, size.width}));
    Array found = value(y);
    size_t i = 0;
    for (int64_t plane = 0; plane < 4; ++plane)
      for (int64_t a = 0; a < size.height; ++a)
        for (int64_t b = 0; b < size.width; ++b) {
          int64_t top = a * 7 / size.height, bottom = ((a + 1) * 7 + size.height - 1) / size.height;
          int64_t left = b * 6 / size.width, right = ((b + 1) * 6 + size.width - 1) / size.width;
          double total = 0;
          for (int64_t row = top; row < bottom; ++row)
            for (int64_t column = left; column < right; ++column)
              total += at(given(x), plane / 2, plane % 2, row, column);
          ASSERT_NEAR(found.values[i++], total / double((bottom - top) * (right - left)), exact);
        }
    expect_true_gradients(y, {x});
  }
}

TEST_F(ImageOperators, BatchnormUsesAndRemembersTheStatisticsOfTheBatch) {
  Tensor x = tensor({3, 2, 4, 5}), gain = parameter("bn.gain", {2}, ones()), bias = tensor({2});
  leaves[gain.node()] = spread_values({2}, {}, false, random);
  Tensor y = batchnorm(x, gain, bias, 1e-3, 0.25);
  std::map<std::string, NodeId> updates;
  for (const Update& update : trace.program.updates) {
    updates[trace.program[update.target].name] = update.value;
    leaves[update.target] = Array({2}, 3.0);
  }
  ASSERT_EQ(updates.size(), 2u);
  Array found = value(y);
  for (int64_t c = 0; c < 2; ++c) {
    double mean = 0, squares = 0;
    auto each = [&](const std::function<void(double, size_t)>& visit) {
      for (size_t i = 0; i < 120; ++i)
        if (int64_t(i / 20 % 2) == c) visit(given(x).values[i], i);
    };
    each([&](double v, size_t) { mean += v / 60; });
    each([&](double v, size_t) { squares += (v - mean) * (v - mean); });
    each([&](double v, size_t i) {
      double expected = (v - mean) / std::sqrt(squares / 60 + 1e-3) * given(gain).values[size_t(c)];
      ASSERT_NEAR(found.values[i], expected + given(bias).values[size_t(c)], exact);
    });
    auto running = [&](const char* name) { return value(Tensor(updates.at(name))).values[size_t(c)]; };
    EXPECT_NEAR(running("bn.gain.running_mean"), 0.75 * 3 + 0.25 * mean, exact);
    EXPECT_NEAR(running("bn.gain.running_variance"), 0.75 * 3 + 0.25 * squares / 59, exact);
  }
  expect_true_gradients(y, {x, gain, bias});
}

TEST_F(ImageOperators, GroupnormNormalisesEverySampleAndGroup) {
  Tensor x = tensor({2, 6, 3, 2}), gain = tensor({6}), bias = tensor({6}), y = groupnorm(x, 3, gain, bias);
  Array found = value(y);
  for (size_t group = 0; group < 6; ++group) {  // of 2 channels of 6 elements
    double mean = 0, squares = 0;
    for (size_t i = 0; i < 12; ++i) mean += given(x).values[group * 12 + i] / 12;
    for (size_t i = 0; i < 12; ++i) squares += std::pow(given(x).values[group * 12 + i] - mean, 2);
    for (size_t i = 0; i < 12; ++i) {
      size_t channel = (group * 2 + i / 6) % 6;
      double expected = (given(x).values[group * 12 + i] - mean) / std::sqrt(squares / 12 + 1e-5);
      ASSERT_NEAR(found.values[group * 12 + i], expected * given(gain).values[channel] + given(bias).values[channel],
                  exact);
    }
  }
  expect_true_gradients(y, {x, gain, bias});
}

TEST_F(ImageOperators, WhatAConvolutionCanBeCutAlong) {
  Tensor y = conv2d(tensor({4, 6, 8, 8}), tensor({10, 3, 3, 3}), {.stride = 2, .padding = 1, .groups = 2});
  const Node& node = trace.program[y.node()];
  EXPECT_EQ(text(node.space),
            "{g:2 n:4 o:5 y:4 x:4 | c:3 sum ky:3 sum kx:3 sum} in0[n,g*3+c,y*2+ky-1,x*2+kx-1]?0 in1[g*5+o,c,ky,kx] -> "
            "[n,g*5+o,y,x]");
  auto cut = [&](const char* factor, int input) {
    for (size_t f = 0; f < node.space.factors.size(); ++f)
      if (node.space.factors[f].name == factor)
        if (auto at = cut_of(node.space, node.space.inputs[size_t(input)],
                             trace.program[node.inputs[size_t(input)]].type.shape, int(f)))
          return fmt::format("{}/{}", at->dim, at->unit);
    return std::string("whole");
  };
  EXPECT_EQ(cut("n", 0), "0/1") << "padding is no obstacle to cutting the batch";
  EXPECT_EQ(cut("g", 0), "1/3");
  EXPECT_EQ(cut("g", 1), "0/5");
  EXPECT_EQ(cut("c", 0), "whole") << "channels of one group do not lie together";
  EXPECT_EQ(cut("c", 1), "1/1");
  EXPECT_EQ(cut("y", 0), "whole") << "windows overlap";
}

TEST_F(ImageOperators, WrongConvolutionsAreTold) {
  Tensor x = tensor({2, 6, 5, 5}), w = tensor({4, 6, 3, 3});
  EXPECT_THAT(error_of([&] {
                conv2d(x, tensor({4, 6, 9, 3}), {.padding = 1});
              }),
              ::testing::AllOf(HasSubstr("image_operators_test.cpp"),
                               HasSubstr("[conv2d] the window is higher than the padded image"),
                               HasSubstr("expected: at most 7 (5 and 1 on either side)"), HasSubstr("found:    9"),
                               HasSubstr("give more padding, a smaller window or a larger image")));
  EXPECT_THAT(error_of([&] {
                conv2d(x, w, {.dilation = {1, 3}});
              }),
              ::testing::AllOf(HasSubstr("wider than the padded image"), HasSubstr("7 (3 taps, 3 apart)")));
  EXPECT_THAT(
      error_of([&] { conv2d(x, w, {.groups = 4}); }),
      ::testing::AllOf(HasSubstr("4 groups do not divide 6 channels and 4 outputs"), HasSubstr("a divisor of both")));
  EXPECT_THAT(error_of([&] { conv2d(x, w, {.groups = 2}); }),
              ::testing::AllOf(HasSubstr("channels disagree: [2,6,5,5] with kernel [4,6,3,3]"),
                               HasSubstr("a kernel [outputs,3,height,width]: 6 channels in 2 groups")));
  EXPECT_THAT(error_of([&] {
                conv2d(reshape(x, {12, 5, 5}), w);
              }),
              ::testing::AllOf(HasSubstr("[conv2d] argument 1 must have 4 dimensions"),
                               HasSubstr("an image [batch,channels,height,width]"), HasSubstr("f32[12,5,5]")));
  EXPECT_THAT(error_of([&] { conv2d(x, w, {.stride = 0}); }),
              ::testing::AllOf(HasSubstr("stride is out of range"), HasSubstr("0 x 0")));
  EXPECT_THAT(error_of([&] { conv2d(x, w, {.padding = {0, -1}}); }), HasSubstr("padding is out of range"));
  EXPECT_THAT(error_of([&] { conv2d(x, w, {.dilation = int64_t(1) << 40}); }), HasSubstr("dilation is out of range"));
  Tensor labels =
      trace.add_leaf(NodeKind::input, "labels", {{2, 6, 5, 5}, DType::i32}, std::source_location::current());
  EXPECT_THAT(error_of([&] { conv2d(labels, w); }), HasSubstr("argument 1 must hold numbers, not indices"));
  EXPECT_THAT(error_of([&] { conv_transpose2d(x, w); }),
              ::testing::AllOf(HasSubstr("[conv_transpose2d] channels disagree"), HasSubstr("a kernel [6,outputs"),
                               HasSubstr("begins with the channels it reads")));
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, tensor({6, 1, 3, 3}), {.groups = 4});
              }),
              HasSubstr("4 groups do not divide 6 channels"));
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, tensor({6, 1, 3, 3}), {.stride = 2, .output_padding = 2});
              }),
              HasSubstr("output padding below the stride"));
  EXPECT_THAT(error_of([&] {
                conv_transpose2d(x, tensor({6, 1, 3, 3}), {.padding = 4});
              }),
              HasSubstr("nothing is left of the result"));
}

TEST_F(ImageOperators, WrongPoolsAndNormsAreTold) {
  Tensor x = tensor({2, 6, 5, 5}), six = tensor({6}), five = tensor({5});
  EXPECT_THAT(error_of([&] { max_pool2d(x, 6); }),
              HasSubstr("[max_pool2d] the window is higher than the padded image"));
  EXPECT_THAT(error_of([&] { max_pool2d(x, 3, {.padding = 2}); }),
              ::testing::AllOf(HasSubstr("padding is more than half of the window"), HasSubstr("at most 1 x 1")));
  EXPECT_THAT(error_of([&] { avg_pool2d(six, 2); }), HasSubstr("[avg_pool2d] argument 1 must have 4 dimensions"));
  EXPECT_THAT(error_of([&] { avg_pool2d(x, 0); }), HasSubstr("the window is out of range"));
  EXPECT_THAT(error_of([&] {
                adaptive_avg_pool2d(x, {0, 2});
              }),
              ::testing::AllOf(HasSubstr("1 or more rows and columns"), HasSubstr("0 x 2")));
  EXPECT_THAT(error_of([&] { batchnorm(x, five, six); }),
              ::testing::AllOf(HasSubstr("[batchnorm] gain has another width"), HasSubstr("[6], dimension 1 of"),
                               HasSubstr("[5]")));
  EXPECT_THAT(error_of([&] { batchnorm(x, six, six, 1e-5, 2); }), HasSubstr("0 <= momentum <= 1"));
  EXPECT_THAT(error_of([&] { batchnorm(six, six, six); }), HasSubstr("2 dimensions or more"));
  EXPECT_THAT(error_of([&] { groupnorm(x, 4, six, six); }), HasSubstr("[groupnorm] 4 groups do not divide 6 channels"));
  EXPECT_THAT(error_of([&] { groupnorm(x, 3, six, five); }), HasSubstr("bias has another width"));
}

}  // namespace
}  // namespace hetsynth
