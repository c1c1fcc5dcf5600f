// hetsynth_convolution against plain loops, and which operators become calls of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "codegen/interface/abi.h"
#include "codegen/passes/lower.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"

namespace hetsynth::test {
namespace {

using codegen::Group;

constexpr int image = 0, kernel = 1, result = 2;

struct Draw {
  std::array<int64_t, 16> sizes;  ///< as hetsynth_convolution takes them
  int64_t batch() const { return sizes[0]; }
  int64_t groups() const { return sizes[1]; }
  int64_t channels() const { return sizes[2]; }
  int64_t outputs() const { return sizes[3]; }
  const int64_t* dimension(int d) const { return &sizes[size_t(4 + 6 * d)]; }
  std::array<int64_t, 4> extents(int part) const {
    const int64_t *y = dimension(0), *x = dimension(1);
    if (part == image) return {batch(), groups() * channels(), y[0], x[0]};
    if (part == kernel) return {groups() * outputs(), channels(), y[1], x[1]};
    return {batch(), groups() * outputs(), y[2], x[2]};
  }
};

/// Images may end before the last window or go on after it, begin before the first or after.
Draw draw(std::mt19937& random) {
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  Draw out{};
  out.sizes[0] = 1 + below(3), out.sizes[1] = below(3) == 0 ? 1 + below(4) : 1;
  out.sizes[2] = 1 + below(5), out.sizes[3] = 1 + below(5);
  for (int d = 0; d < 2; ++d) {
    int64_t window = 1 + below(4), results = 1 + below(5), stride = 1 + below(3), dilation = 1 + below(2);
    int64_t padding = below(4) == 0 ? -below(3) : below(window);
    int64_t reach = (results - 1) * stride + (window - 1) * dilation + 1 - padding;
    int64_t extent = std::max<int64_t>(reach - below(window) + below(stride + 1), 1);
    std::copy_n(std::array{extent, window, results, stride, dilation, padding}.begin(), 6,
                &out.sizes[size_t(4 + 6 * d)]);
  }
  return out;
}

struct Buffer {
  std::array<int64_t, 4> strides;
  std::vector<float> values;
};

/// Dimensions in a random order in memory, or row-major with gaps between rows.
Buffer buffer(const std::array<int64_t, 4>& extents, std::mt19937& random) {
  std::array<size_t, 4> order{0, 1, 2, 3};
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  Buffer out;
  int64_t stride = 1, gap = int64_t(random() % 3);
  for (size_t i = 4; i-- > 0;) {
    out.strides[order[i]] = stride;
    stride = stride * extents[order[i]] + (i == 3 ? gap : 0);
  }
  out.values.resize(size_t(stride));
  for (float& v : out.values) v = std::uniform_real_distribution<float>(-1, 1)(random);
  return out;
}

/// Adds up every meeting in double; the number of summands of each element is counted for the bound.
void expect_convolution(const Draw& d, int computes, std::array<Buffer, 3> buffers) {
  auto at = [&](int part, int64_t a, int64_t b, int64_t y, int64_t x) {
    const auto& s = buffers[size_t(part)].strides;
    return size_t(a * s[0] + b * s[1] + y * s[2] + x * s[3]);
  };
  std::vector<double> expected(buffers[size_t(computes)].values.begin(), buffers[size_t(computes)].values.end());
  std::vector<int> terms(expected.size(), 0);
  auto e = d.extents(computes);
  for (int64_t a = 0; a < e[0]; ++a)
    for (int64_t b = 0; b < e[1]; ++b)
      for (int64_t y = 0; y < e[2]; ++y)
        for (int64_t x = 0; x < e[3]; ++x) expected[at(computes, a, b, y, x)] = 0;
  const int64_t *rows = d.dimension(0), *columns = d.dimension(1);
  for (int64_t n = 0; n < d.batch(); ++n)
    for (int64_t o = 0; o < d.groups() * d.outputs(); ++o)
      for (int64_t c = 0; c < d.channels(); ++c)
        for (int64_t i = 0; i < rows[1] * columns[1] * rows[2] * columns[2]; ++i) {
          int64_t kx = i % columns[1], ky = i / columns[1] % rows[1];
          int64_t x = i / (columns[1] * rows[1]) % columns[2], y = i / (columns[1] * rows[1] * columns[2]);
          int64_t h = y * rows[3] + ky * rows[4] - rows[5], w = x * columns[3] + kx * columns[4] - columns[5];
          if (h < 0 || h >= rows[0] || w < 0 || w >= columns[0]) continue;
          std::array<size_t, 3> place{at(image, n, o / d.outputs() * d.channels() + c, h, w), at(kernel, o, c, ky, kx),
                                      at(result, n, o, y, x)};
          double product = 1;
          for (int part = 0; part < 3; ++part)
            if (part != computes) product *= buffers[size_t(part)].values[place[size_t(part)]];
          expected[place[size_t(computes)]] += product;
          ++terms[place[size_t(computes)]];
        }
  std::array<int64_t, 12> strides{};
  for (size_t part = 0; part < 3; ++part) std::copy_n(buffers[part].strides.begin(), 4, &strides[4 * part]);
  hetsynth_convolution(computes, d.sizes.data(), strides.data(), buffers[image].values.data(),
                       buffers[kernel].values.data(), buffers[result].values.data());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Terms are below 1: each addition is rounded by at most half a unit of a sum of at most that many.
    double bound = double((terms[i] + 1) * (terms[i] + 2)) * 0x1p-24;
    ASSERT_NEAR(buffers[size_t(computes)].values[i], expected[i], bound)
        << "element " << i << " of " << fmt::format("part {} of {}", computes, fmt::join(d.sizes, ","));
  }
}

TEST(Convolution, EveryPartOverLayoutsGroupsAndEdges) {
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    Draw d = draw(random);
    std::array<Buffer, 3> buffers;
    for (int part = 0; part < 3; ++part) buffers[size_t(part)] = buffer(d.extents(part), random);
    for (int computes = 0; computes < 3; ++computes) {
      expect_convolution(d, computes, buffers);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Convolution, EmptyExtentsGiveZerosOrNothing) {
  std::array<int64_t, 16> sizes{0, 1, 2, 3, 4, 3, 2, 1, 1, 0, 4, 3, 2, 1, 1, 0};
  std::array<int64_t, 12> strides{32, 16, 4, 1, 18, 9, 3, 1, 12, 4, 2, 1};
  std::vector<float> images(64, 1), kernels(54, 1), results(24, 1);
  hetsynth_convolution(kernel, sizes.data(), strides.data(), images.data(), kernels.data(), results.data());
  EXPECT_EQ(kernels, std::vector<float>(54, 0)) << "a sum over no sample";
  hetsynth_convolution(result, sizes.data(), strides.data(), images.data(), kernels.data(), results.data());
  EXPECT_EQ(results, std::vector<float>(24, 1)) << "nothing to compute";
}

/// One convolution with its gradients, every tensor an output.
Program convolution_step(const Dims& shape, const Dims& weights, const Conv2d& options) {
  Trace trace("test.cpp");
  run_builder(trace, [&] {
    Tensor x = parameter("x", shape, normal(1)), w = parameter("w", weights, normal(1));
    Tensor y = conv2d(x, w, options);
    output("y", y);
    std::vector<Tensor> d = gradients(sum(y * y), {x, w});
    output("dx", d[0]);
    output("dw", d[1]);
  });
  for (size_t i = 0; i < trace.program.nodes.size(); ++i) {
    Node& node = trace.program.nodes[i];
    if (node.name.empty()) node.name = fmt::format("t{}", i);
  }
  return trace.program;
}

TEST(Convolution, AndItsGradientsBecomeCalls) {
  struct Case {
    Dims shape, weights;
    Conv2d options;
    int calls = 3;
  };
  for (const Case& c : std::vector<Case>{{{4, 6, 9, 8}, {8, 6, 3, 3}, {.padding = 1}},
                                         {{4, 6, 9, 8}, {8, 6, 3, 5}, {.stride = 2, .padding = {1, 2}}},
                                         {{4, 6, 9, 8}, {8, 3, 3, 3}, {.stride = {2, 1}, .padding = 1, .groups = 2}},
                                         // Nothing is summed over where windows of single channels do not overlap.
                                         {{4, 6, 9, 8}, {6, 1, 3, 3}, {.stride = 3, .groups = 6}, 2},
                                         {{4, 6, 9, 8}, {8, 6, 1, 1}, {.stride = 2}},
                                         {{1, 1, 9, 8}, {1, 1, 2, 3}, {.dilation = 2}}}) {
    Program p = convolution_step(c.shape, c.weights, c.options);
    SCOPED_TRACE(text(p));
    SpmdProgram s = whole_program(p);
    codegen::Lowered lowered = codegen::lower(p, s, 0);
    int calls = std::count_if(lowered.groups.begin(), lowered.groups.end(),
                              [](const Group& g) { return g.kind == Group::Kind::convolution; });
    EXPECT_EQ(calls, c.calls);
    GeneratedRun run(p, s);
    Bindings leaves = initial_values(p, 3);
    for (const auto& [node, values] : leaves) run.write(node, values);
    ASSERT_TRUE(run.step({}));
    std::vector<Array> expected = interpret(p, leaves, {});
    for (const NamedOutput& out : p.outputs) {
      Array found = run.read(out.node);
      for (size_t i = 0; i < found.values.size(); ++i)
        // Sums of at most 4 * 9 * 8 products of sums of 90 normal draws: magnitudes below 1e3, 300 roundings.
        ASSERT_NEAR(found.values[i], expected[size_t(out.node)].values[i], 2e-3) << out.name << " element " << i;
    }
  }
}

}  // namespace
}  // namespace hetsynth::test
