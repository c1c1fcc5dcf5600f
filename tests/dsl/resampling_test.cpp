// Convolution along one dimension, and images of another size, against loops written out here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/dsl/evaluation.h"
#include "tests/dsl/function_testing.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

TEST(Conv1d, IsTheSumOverItsWindows) {
  Evaluation value;
  const int64_t length = 9, channels = 4, outputs = 6, taps = 3, groups = 2;
  Tensor x = value.counting({2, channels, length}), w = value.counting({outputs, channels / groups, taps});
  const Conv1d o{.stride = 2, .padding = 2, .dilation = 2, .groups = groups};
  Tensor y = conv1d(x, w, o);
  const int64_t results = (length + 2 * o.padding - o.dilation * (taps - 1) - 1) / o.stride + 1;
  ASSERT_EQ(y.shape(), (Dims{2, outputs, results}));
  Values wanted;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t out = 0; out < outputs; ++out)
      for (int64_t i = 0; i < results; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < channels / groups; ++c)
          for (int64_t k = 0; k < taps; ++k) {
            const int64_t at = i * o.stride + k * o.dilation - o.padding;
            const int64_t channel = out / (outputs / groups) * (channels / groups) + c;
            if (at < 0 || at >= length) continue;
            sum += double((n * channels + channel) * length + at) * double((out * (channels / groups) + c) * taps + k);
          }
        wanted.push_back(sum);
      }
  EXPECT_EQ(value(y), wanted);
}

TEST(Conv1d, HasItsGradients) {
  expect_right_gradients(Function({{2, 2, 7}, {3, 2, 3}}, [](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{conv1d(x[0], x[1], {.stride = 2, .padding = 1}), conv1d(x[0], x[1], {.dilation = 2})};
  }));
}

TEST(Conv1d, TellsWhatDoesNotFit) {
  Evaluation value;
  Tensor x = value.counting({2, 3, 8}), w = value.counting({4, 3, 3});
  EXPECT_THAT(
      error_of([&] {
        conv1d(value.counting({2, 3}), w);
      }),
      AllOf(HasSubstr("resampling_test.cpp"), HasSubstr("[conv1d]"), HasSubstr("a sequence [batch,channels,length]")));
  EXPECT_THAT(
      error_of([&] {
        conv1d(x, value.counting({4, 2, 3}));
      }),
      AllOf(HasSubstr("[conv1d] channels disagree: [2,3,8] with kernel [4,2,3]"),
            HasSubstr("a kernel [outputs,3,length]"), HasSubstr("2 channels"), HasSubstr("transpose(x, {0, 2, 1})")));
  EXPECT_THAT(error_of([&] { conv1d(x, w, {.groups = 2}); }), HasSubstr("[conv1d]"));
  EXPECT_THAT(error_of([&] { conv1d(x, w, {.stride = 0}); }), HasSubstr("[conv1d]"));
  EXPECT_THAT(error_of([&] { conv1d(x, value.counting({4, 3, 11})); }), HasSubstr("[conv1d]"));
}

/// One dimension of x resized as PyTorch's interpolate does it with align_corners=False.
Values resized(const Values& x, int64_t to, Interpolation mode) {
  const auto from = int64_t(x.size());
  Values out;
  for (int64_t i = 0; i < to; ++i) {
    if (mode == Interpolation::nearest) {
      out.push_back(x[size_t(i * from / to)]);
      continue;
    }
    const double at = std::clamp((double(i) + 0.5) * double(from) / double(to) - 0.5, 0.0, double(from - 1));
    const auto low = int64_t(std::floor(at)), high = std::min(low + 1, from - 1);
    out.push_back(x[size_t(low)] * (1 - (at - double(low))) + x[size_t(high)] * (at - double(low)));
  }
  return out;
}

TEST(Interpolate, ReadsNearestElementsAndMeansBetweenThem) {
  for (Interpolation mode : {Interpolation::nearest, Interpolation::bilinear})
    for (int64_t from : {1, 2, 3, 4, 6, 7})
      for (int64_t to : {1, 2, 3, 5, 8, 12, 14}) {
        Evaluation value;
        Values line;
        for (int64_t i = 0; i < from; ++i) line.push_back(double((i * 5) % 7) - 2.5 * double(i % 2));
        const Values wanted = resized(line, to, mode);
        EXPECT_THAT(value(interpolate(value.leaf({1, 1, from, 1}, line), {to, 1}, mode)),
                    Pointwise(DoubleNear(exact), wanted))
            << "rows " << from << " " << to << " " << int(mode);
        EXPECT_THAT(value(interpolate(value.leaf({1, 1, 1, from}, line), {1, to}, mode)),
                    Pointwise(DoubleNear(exact), wanted))
            << "columns " << from << " " << to << " " << int(mode);
      }
}

TEST(Interpolate, ResizesBothDirections) {
  Evaluation value;
  Tensor x = value.leaf({1, 1, 2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(value(upsample(x, 2)), ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4));
  EXPECT_THAT(value(upsample(x, {1, 2}, Interpolation::bilinear)), ElementsAre(1, 1.25, 1.75, 2, 3, 3.25, 3.75, 4));
  EXPECT_EQ(upsample(value.counting({2, 3, 4, 5}), {3, 2}).shape(), (Dims{2, 3, 12, 10}));
  EXPECT_EQ(interpolate(x, 2).node(), x.node()) << "nothing to do";
}

TEST(Interpolate, HasItsGradients) {
  expect_right_gradients(Function({{2, 2, 3, 4}}, [](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{upsample(x[0], 2), upsample(x[0], {2, 3}, Interpolation::bilinear),
                               interpolate(x[0], {2, 6}, Interpolation::bilinear), interpolate(x[0], {5, 2})};
  }));
}

TEST(Interpolate, TellsWhatDoesNotFit) {
  Evaluation value;
  Tensor x = value.counting({2, 3, 4, 5});
  EXPECT_THAT(error_of([&] {
                interpolate(value.counting({4, 5}), 3);
              }),
              AllOf(HasSubstr("resampling_test.cpp"), HasSubstr("[interpolate]"),
                    HasSubstr("an image [batch,channels,height,width]")));
  EXPECT_THAT(error_of([&] {
                interpolate(x, {0, 3});
              }),
              AllOf(HasSubstr("[interpolate] an image has at least one element in each direction"),
                    HasSubstr("height and width of 1 or more"), HasSubstr("0 x 3")));
  EXPECT_THAT(error_of([&] { upsample(x, -1); }), AllOf(HasSubstr("[upsample]"), HasSubstr("how many times as large")));
  EXPECT_THAT(error_of([&] { upsample(value.indices({1, 1, 2, 2}, {0, 1, 2, 3}), 2); }), HasSubstr("[upsample]"));
}

}  // namespace
}  // namespace hetsynth
