// An image too large for one device and a batch too small to share: rows are cut, and only boundary rows travel.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "programs.h"
#include "synth/planner/synthesize.h"

namespace hetsynth {
namespace {

using namespace testing_support;

Program traced(const std::function<void()>& model) {
  Trace trace("image.cpp");
  run_builder(trace, model);
  return differentiate(trace);
}

/// Convolutions with stride 1 and 2 and a pool over one image.
Program image_step(int64_t side, int64_t width, int64_t row_blocks) {
  return traced([=] {
    auto [image, label] = image_batch(1, 3, side, side, 4);
    Tensor blocks = split_rows(image, row_blocks);
    const auto conv = [&](const char* name, Tensor x, int64_t outputs, int64_t stride) {
      Tensor weight = parameter(name, {outputs, x.size(1), 3, 3}, normal(0.1));
      return relu(conv2d(x, weight, {.stride = stride, .padding = 1, .row_blocks = row_blocks}));
    };
    Tensor x = conv("w1", blocks, width, 1);
    x = conv("w2", x, width, 2);
    x = max_pool2d(x, 3, {.stride = 2, .padding = 1, .row_blocks = row_blocks});
    x = conv("w3", x, width, 1);
    Tensor logits = matmul(mean(join_rows(x, row_blocks), {2, 3}), parameter("head", {width, 4}, normal(0.1)));
    minimize(cross_entropy(logits, label), SGD{});
  });
}

/// Without blocks of rows: convolutions and a pool that halves.
Program plain_step(int64_t side, int64_t width) {
  return traced([=] {
    auto [image, label] = image_batch(1, 3, side, side, 4);
    const auto conv = [&](const char* name, Tensor x, int64_t size) {
      Tensor weight = parameter(name, {width, x.size(1), size, size}, normal(0.1));
      return relu(conv2d(x, weight, {.padding = size / 2}));
    };
    Tensor x = conv("w1", image, 5);
    x = max_pool2d(conv("w2", x, 3), 2, {.stride = 2});
    x = conv("w3", x, 3);
    Tensor logits = matmul(mean(x, {2, 3}), parameter("head", {width, 4}, normal(0.1)));
    minimize(cross_entropy(logits, label), SGD{});
  });
}

SynthesisOptions without_halos() {
  SynthesisOptions options;
  options.pins.forbidden = {Opcode::halo_exchange};
  return options;
}

/// Factors of convolutions and their gradients that run along height or width.
const auto along_an_image = ::testing::AnyOf("y", "x", "iy", "ix", "qy", "qx");

int count(const Plan& plan, Opcode opcode) {
  return int(std::ranges::count(plan.program.instructions, opcode, &Instruction::opcode));
}

/// Factors that the products of convolutions are split by.
std::vector<std::string> convolution_splits(const Program& program, const Plan& plan) {
  std::vector<std::string> out;
  for (const Instruction& i : plan.program.instructions) {
    if (i.opcode != Opcode::compute || !program[i.node].tag().starts_with("conv")) continue;
    const int factor = i.splits[0].factor;
    out.push_back(factor < 0 ? "none" : program[i.node].space.factors[size_t(factor)].name);
  }
  return out;
}

/// Elements of the largest activation that is gathered whole.
int64_t largest_gathered(const Program& program, const Plan& plan) {
  int64_t largest = 0;
  for (const Instruction& i : plan.program.instructions) {
    const Shape& shape = program[plan.program.values[i.result].node].type.shape;
    if (i.opcode == Opcode::all_gather && shape.size() > 3) largest = std::max(largest, element_count(shape));
  }
  return largest;
}

TEST(SpatialSplit, OneLargeImageIsCutInRowsAndBoundaryRowsTravel) {
  const Cluster cluster = cluster_of_speeds({3e10, 1e10, 2e10}, 1e8, 1e-6);
  const Program blocks = image_step(192, 32, 6), whole = image_step(192, 32, 1);
  const Plan halo = synthesize(blocks, cluster, without_halos()), other = synthesize(whole, cluster, without_halos());
  for (const std::string& factor : convolution_splits(blocks, halo)) EXPECT_EQ(factor, "n") << "blocks of rows";
  EXPECT_LE(largest_gathered(blocks, halo), 6 * 32 * 192) << "a row of each of 6 blocks";
  // By channels instead of rows, whole activations are gathered; one device of half the cluster's speed is near that.
  EXPECT_LT(halo.prediction.objective_seconds, 0.85 * other.prediction.objective_seconds);
  // Without blocks the same, strides and padding included, by halos: only neighbours' rows travel, of any heights.
  const Plan derived = synthesize(whole, cluster);
  for (const std::string& factor : convolution_splits(whole, derived)) EXPECT_THAT(factor, along_an_image) << "derived";
  EXPECT_LT(derived.prediction.objective_seconds, halo.prediction.objective_seconds);
}

TEST(SpatialSplit, UnevenRowsComputeWhatOneDeviceDoes) {
  const Program program = image_step(16, 3, 4);
  const Plan plan = synthesize(program, cluster_of_speeds({2e8, 1e8, 1e8}, 1e10, 1e-9), without_halos());
  EXPECT_THAT(convolution_splits(program, plan), ::testing::Contains("n"));
  EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
}

TEST(SpatialSplit, PlainModelsAreCutWithHalos) {
  const Cluster cluster = cluster_of_speeds({3e10, 1e10, 2e10}, 1e8, 1e-6);
  const Program program = plain_step(192, 32);
  const Plan plan = synthesize(program, cluster);
  for (const std::string& factor : convolution_splits(program, plan)) EXPECT_THAT(factor, along_an_image);
  EXPECT_GE(count(plan, Opcode::halo_exchange), 4);
  EXPECT_LE(largest_gathered(program, plan), 32 * 32 * 3 * 3) << "weights";
  const Plan without = synthesize(program, cluster, without_halos());
  EXPECT_EQ(count(without, Opcode::halo_exchange), 0);
  EXPECT_LT(plan.prediction.objective_seconds, 0.7 * without.prediction.objective_seconds);
}

TEST(SpatialSplit, HalosOfUnevenPartsComputeWhatOneDeviceDoes) {
  for (const Program& program : {plain_step(16, 4), image_step(64, 4, 1)})
    for (const std::vector<double>& speeds :
         std::vector<std::vector<double>>{{2e8, 1e8}, {4e8, 1e8, 1e8}, {1e8, 4e8, 1e8, 1e8}}) {
      const Plan plan = synthesize(program, cluster_of_speeds(speeds, 1e9, 1e-9));
      EXPECT_GT(count(plan, Opcode::halo_exchange), 0);
      EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
    }
}

Tensor filtered(const char* name, Tensor x, int64_t outputs) {
  return relu(conv2d(x, parameter(name, {outputs, x.size(1), 3, 3}, normal(0.1)), {.padding = 1}));
}

/// Of one window over the whole image nothing overlaps: parts of it are partial maxima.
void pooled_whole() {
  auto [image, label] = image_batch(1, 3, 24, 24, 4);
  Tensor x = max_pool2d(filtered("b", filtered("a", image, 4), 1), 24);
  minimize(cross_entropy(matmul(reshape(x, {1, 1}), parameter("head", {1, 4}, normal(0.1))), label), SGD{});
}

/// One reader of x can be cut with it, to the other no common parts are left.
void pooled_apart() {
  auto [image, label] = image_batch(1, 3, 120, 4, 4);
  Tensor x = filtered("w0", image, 4);
  Tensor p = max_pool2d(filtered("w1", x, 4), Extent2d{15, 4}, {.stride = Extent2d{15, 4}});
  Tensor kernel = parameter("w2", {4, 4, 10, 1}, normal(0.1));
  Tensor c = conv2d(x, kernel, {.stride = Extent2d{8, 1}, .padding = Extent2d{1, 0}});
  Tensor v = mean(p, {2, 3}) + mean(c, {2, 3});
  minimize(cross_entropy(matmul(v, parameter("head", {4, 4}, normal(0.1))), label), SGD{});
}

TEST(SpatialSplit, WindowsThatFitNoHaloComputeWhatOneDeviceDoes) {
  for (void (*model)() : {pooled_whole, pooled_apart}) {
    const Program program = traced(model);
    for (const double link : {1e7, 1e8, 1e9, 1e10}) {
      const Plan plan = synthesize(program, cluster_of_speeds({3e8, 1e8, 2e8}, link, 1e-9));
      for (const Instruction& i : plan.program.instructions)
        EXPECT_TRUE(i.opcode != Opcode::all_to_all || i.dim != i.to_dim) << text(plan.program, program);
      EXPECT_EQ(compare_with_reference(program, plan.program, 3), "");
    }
  }
}

}  // namespace
}  // namespace hetsynth
