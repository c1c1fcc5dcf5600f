// Products that cublasLt follows up by itself: where they are used, that steps with them are right on doubles, and that
// seeded faults in their calls are found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/support/cuda/after_step.h"

namespace hetsynth::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

using Activation = Tensor (*)(Operand);
constexpr int64_t rows = 130;

/// Three layers, two with biases; the loss is the mean square of the third. There are rows enough for sums over them to
/// be kernels of their own, as they are in models.
Program network(Activation activation, int64_t hidden = 32) {
  Trace trace("network.cpp");
  run_builder(trace, [&] {
    Tensor x = parameter("x", {rows, 16}, normal(1.0));
    Tensor y =
        activation(matmul(x, parameter("w1", {16, hidden}, normal(0.3))) + parameter("b1", {hidden}, normal(0.5)));
    Tensor z = matmul(y, parameter("w2", {hidden, 8}, normal(0.3))) + parameter("b2", {8}, normal(0.5));
    Tensor out = matmul(z, parameter("w3", {8, 8}, normal(0.3)));
    minimize(mean(out * out), SGD{.learning_rate = 1.0});
  });
  return differentiate(trace);
}

/// One GPU where products may have these epilogues; null: as estimated.
Cluster gpu(const FusedProducts* epilogues = nullptr) {
  Cluster cluster = cuda_cluster({1});
  if (epilogues) cluster.devices[0].measured.epilogues = *epilogues;
  return cluster;
}

DeviceProgram generated(const Program& reference, const Cluster& cluster) {
  return generate(reference, single_device_plan(reference, cluster).program, cluster, 0);
}

std::string host_text(const Program& reference, const Cluster& cluster) {
  return generated(reference, cluster).files.at(0).text;
}

TEST(CudaEpilogue, BiasActivationAndSlopeAreDoneByTheProduct) {
  const std::string text = host_text(network(gelu), gpu());
  EXPECT_THAT(text, AllOf(ContainsRegex(", add_bias_gelu_keep, b1, [a-z_]+\\)"), HasSubstr(", add_bias, b2, 0)"),
                          ContainsRegex(", times_gelu_slope_sum, d_b1, [a-z_]+\\)")));
  EXPECT_THAT(host_text(network(relu), gpu()), HasSubstr(", add_bias_relu, b1, 0)"));
}

TEST(CudaEpilogue, OnlyWhereTheKernelIsThatOne) {
  const std::string add_bias = ", add_bias, b2, 0)",
                    of_gelu = "(add_bias_gelu|add_bias_gelu_keep|gelu_slope|gelu_slope_sum), ";
  const FusedProducts none;
  EXPECT_THAT(host_text(network(gelu), gpu(&none)), Not(HasSubstr("hetsynth_device_matmul_then(context")));
  // cublasLt's gelu is the tanh approximation, and its own matrix beside the result has rows of a multiple of eight.
  for (const std::string& text : {host_text(network(gelu_erf), gpu()), host_text(network(gelu, 20), gpu())})
    EXPECT_THAT(text, AllOf(HasSubstr(add_bias), Not(ContainsRegex(of_gelu))));
  const FusedProducts bias_alone = {{ProductEpilogue::bias, DType::f32}};
  EXPECT_THAT(host_text(network(gelu), gpu(&bias_alone)), AllOf(HasSubstr(add_bias), Not(ContainsRegex(of_gelu))));
}

TEST(CudaEpilogue, ProductsOfBf16AreForAMeasurementToShow) {
  Trace trace("network.cpp");
  run_builder(trace, [] {
    mixed_precision("bf16");
    Tensor x = synthetic_batch(rows, 16, 8).samples;
    auto linear = [&](const std::string& name) {
      return matmul(x, parameter("w" + name, {16, 8}, normal(0.3))) + parameter("b" + name, {8}, zeros());
    };
    // An output is stored as it is; what another product reads is rounded by a kernel in any case.
    output("q", linear("q"));
    Tensor k = linear("k");
    minimize(mean(k * k), SGD{.learning_rate = 1.0});
  });
  const Program reference = differentiate(trace);
  EXPECT_THAT(host_text(reference, gpu()), Not(HasSubstr("hetsynth_device_matmul_then(context")));
  const FusedProducts measured = {{ProductEpilogue::bias, DType::bf16}};
  EXPECT_THAT(host_text(reference, gpu(&measured)),
              ContainsRegex("matmul_then\\(context, 1, 130, 8, 16, .*, add_bias, bq, 0\\)"));
}

// ---- executed on doubles ----

After after_a_step(const Program& reference, const Cluster& cluster, DeviceProgram device,
                   MachineOptions options = {}) {
  return after_a_step(reference, single_device_plan(reference, cluster).program, cluster, {std::move(device)},
                      std::move(options));
}

/// Whether a step went through and all numbers are near: float32 sums of up to 32 products, in another order.
bool right(const After& after, const std::vector<double>& expected) {
  if (!after.problem.empty() || after.values.size() != expected.size()) return false;
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(after.values[i] - expected[i]) <= 1e-5 * (1 + std::abs(expected[i])))) return false;
  return true;
}

class CudaEpilogueStep : public ::testing::TestWithParam<std::pair<const char*, Activation>> {};

TEST_P(CudaEpilogueStep, IsThatOfTheInterpreterWithAndWithoutEpilogues) {
  const Program reference = network(GetParam().second);
  const FusedProducts none;
  for (const Cluster& cluster : {gpu(), gpu(&none)}) {
    const After after = after_a_step(reference, cluster, generated(reference, cluster));
    EXPECT_TRUE(right(after, expected_after_a_step(reference))) << after.problem;
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, CudaEpilogueStep,
                         ::testing::Values(std::pair("gelu", Activation(gelu)), std::pair("relu", Activation(relu)),
                                           std::pair("gelu_erf", Activation(gelu_erf))),
                         [](const auto& info) { return std::string(info.param.first); });

class CudaEpilogueFault : public ::testing::TestWithParam<Fault> {};

TEST_P(CudaEpilogueFault, IsFound) {
  const Program reference = network(gelu);
  const Cluster cluster = gpu();
  const DeviceProgram device = damaged(generated(reference, cluster), GetParam());
  EXPECT_FALSE(right(after_a_step(reference, cluster, device), expected_after_a_step(reference)));
}

INSTANTIATE_TEST_SUITE_P(
    Calls, CudaEpilogueFault,
    ::testing::Values(Fault{"no_activation", "add_bias_gelu_keep, b1", "add_bias, b1"},
                      Fault{"another_activation", "add_bias_gelu_keep, b1", "add_bias_relu, b1"},
                      Fault{"nothing_is_kept", "add_bias_gelu_keep, b1", "add_bias_gelu, b1"},
                      Fault{"no_epilogue_of_cublaslt", "add_bias, b2", "5, b2"},
                      Fault{"another_bias", ", add_bias, b2, 0", ", add_bias, b1, 0"},
                      Fault{"bias_from_elsewhere", "add_bias_gelu_keep, b1,", "add_bias_gelu_keep, b1 + 4,"},
                      Fault{"no_bias", "add_bias, b2", "add_bias, 0"},
                      Fault{"nothing_beside", "add_bias_gelu_keep, b1, \\w+", "add_bias_gelu_keep, b1, 0"},
                      Fault{"slope_of_something_else", "times_gelu_slope_sum, d_b1, \\w+",
                            "times_gelu_slope_sum, d_b1, x"},
                      Fault{"slope_of_nothing", "times_gelu_slope_sum, d_b1, \\w+", "times_gelu_slope_sum, d_b1, 0"},
                      Fault{"no_sums", "times_gelu_slope_sum, d_b1", "times_gelu_slope, d_b1"},
                      Fault{"sums_elsewhere", "times_gelu_slope_sum, d_b1", "times_gelu_slope_sum, b1"},
                      Fault{"no_slope", "times_gelu_slope_sum, d_b1, \\w+", "add_bias, b1, 0"}),
    [](const auto& info) { return info.param.name; });

TEST(CudaEpilogue, WhatTheLibraryDoesNotHaveIsDoneByAKernel) {
  for (const Activation activation : {Activation(gelu), Activation(relu)}) {
    const Program reference = network(activation, 40);  // columns that fill no block
    const Cluster cluster = gpu();
    MachineOptions options = machine_for(cluster);
    options.has_epilogues = false;
    const DeviceProgram device = generated(reference, cluster);
    EXPECT_THAT(device.files.at(0).text, HasSubstr("hetsynth_device_matmul_then(context"));
    const After after = after_a_step(reference, cluster, device, options);
    EXPECT_TRUE(right(after, expected_after_a_step(reference))) << after.problem;
  }
}

TEST(CudaEpilogue, AKernelDoesNotMakeUpWhatACallLacks) {
  const Program reference = network(gelu);
  const Cluster cluster = gpu();
  MachineOptions options = machine_for(cluster);
  options.has_epilogues = false;
  const auto problem = [&](const char* from, const char* to) {
    return after_a_step(reference, cluster, damaged(generated(reference, cluster), {"", from, to}), options).problem;
  };
  EXPECT_THAT(problem("add_bias, b2", "add_bias, 0"), HasSubstr("epilogue 4 has a bias, and none is given"));
  EXPECT_THAT(problem("add_bias, b2", "5, b2"), HasSubstr("there is no epilogue 5 of products"));
  EXPECT_THAT(problem("times_gelu_slope_sum, d_b1, \\w+", "times_gelu_slope_sum, d_b1, 0"),
              HasSubstr("epilogue 208 has a matrix beside the result, and none is given"));
}

/// Shares of rows begin anywhere: cublasLt is told how its matrices are aligned, and is asked again for each alignment.
TEST(CudaProducts, AreAskedForByAlignment) {
  Trace trace("slices.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {6, 7}, normal(1.0)), w = parameter("w", {7, 5}, normal(1.0));
    Tensor y = matmul(slice(x, 0, 0, 3), w), z = matmul(slice(x, 0, 3, 6), w);
    minimize(mean(y * y) + mean(z * z), SGD{.learning_rate = 1.0});
  });
  const Program reference = differentiate(trace);
  const Cluster cluster = gpu();
  const After after = after_a_step(reference, cluster, generated(reference, cluster));
  EXPECT_TRUE(right(after, expected_after_a_step(reference))) << after.problem;
}

}  // namespace
}  // namespace hetsynth::testing_support
