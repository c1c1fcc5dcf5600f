// Gradients of convolutions by their weights: sums over all positions of all images, of which a few are looked at, next
// to where a window leaves its image. Right text is accepted, and every wrong size, stride, dilation and padding found.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sstream>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baseline_plans.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

struct Windows {
  const char* name;
  int64_t height, width, rows, columns;
  Conv2d options;
};

/// One convolution of three images of two channels, so large that its sums are not executed in full.
Generated convolving(const Windows& w) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    const Tensor x = synthetic_batch(3, 2 * w.height * w.width, 3).samples;
    const Tensor weight = parameter("weight", {4, 2, w.rows, w.columns}, normal(0.1));
    minimize(mean(square(conv2d(reshape(x, {3, 2, w.height, w.width}), weight, w.options))),
             SGD{.learning_rate = 0.5, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9});
  return generated(program, single_device_plan(program, cluster).program, cluster);
}

class WeightsOfWindows : public ::testing::TestWithParam<Windows> {};

TEST_P(WeightsOfWindows, ThatAreRightPass) {
  const Generated g = convolving(GetParam());
  const SourceCheck found = check(g, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.summary;
}

/// The numbers of a table of the text.
std::vector<int64_t> table_of(const std::string& text, const std::string& name) {
  const size_t begin = text.find(name + "[] = {"), end = text.find("};", begin);
  EXPECT_NE(begin, std::string::npos) << text;
  std::vector<int64_t> out;
  std::istringstream numbers(text.substr(begin + name.size() + 6, end - begin - name.size() - 6));
  for (std::string number; std::getline(numbers, number, ',');) out.push_back(std::stoll(number));
  return out;
}

/// The text with other numbers in the table.
std::string with_table(const std::string& text, const std::string& name, const std::vector<int64_t>& numbers) {
  const size_t begin = text.find(name + "[] = {"), end = text.find("};", begin);
  return text.substr(0, begin) + fmt::format("{}[] = {{{}", name, fmt::join(numbers, ", ")) + text.substr(end);
}

/// Whether an image, or what comes of it (2 numbers later), may be taken for so high or wide: no window reaches the
/// rows that this is about, or those that come beside lie outside of the image.
bool reaches_none(const std::vector<int64_t>& sizes, size_t at, int64_t taken_for) {
  if (at == 6 || at == 12) return taken_for > sizes[at] && sizes[at] * sizes[at + 1] - sizes[at + 3] >= sizes[at - 2];
  if (at != 4 && at != 10) return false;
  const size_t image = at;
  const int64_t window = sizes[image + 1], result = sizes[image + 2], stride = sizes[image + 3],
                dilation = sizes[image + 4], padding = sizes[image + 5];
  return (result - 1) * stride + (window - 1) * dilation - padding < std::min(sizes[image], taken_for);
}

TEST_P(WeightsOfWindows, WhoseNumbersAreWrongAreFound) {
  const Generated g = convolving(GetParam());
  const std::string& text = g.devices[0].files.front().text;
  int wrong = 0;
  for (const std::string& name : {std::string("convolution_d_weight"), std::string("convolution_d_weight_strides")}) {
    const std::vector<int64_t> right = table_of(text, name);
    for (size_t i = 0; i < right.size(); ++i)
      for (const int64_t change : {-1, 1, 2}) {
        std::vector<int64_t> numbers = right;
        numbers[i] += change;
        if (numbers[i] < 0 || (right.size() == 16 && reaches_none(right, i, numbers[i]))) continue;
        const SourceCheck found = check(g, 0, with_table(text, name, numbers));
        EXPECT_NE(found.verdict, Verdict::proved) << name << "[" << i << "] = " << numbers[i];
        ++wrong;
      }
  }
  EXPECT_GT(wrong, 60);
}

INSTANTIATE_TEST_SUITE_P(Of, WeightsOfWindows,
                         ::testing::Values(Windows{"padded", 41, 38, 3, 3, {.padding = 1}},
                                           Windows{"wide", 33, 47, 7, 5, {.padding = 3}},
                                           Windows{"strided", 50, 45, 3, 3, {.stride = 2, .padding = 1}},
                                           Windows{"dilated", 37, 40, 3, 3, {.padding = 2, .dilation = 2}}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hetsynth::test
