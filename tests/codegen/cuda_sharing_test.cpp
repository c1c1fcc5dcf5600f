// Kernels that differ in names alone are written, and compiled, once; and what the compiler says of all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/host/shared_kernels.h"
#include "codegen/interface/device_program.h"
#include "cuda_programs.h"
#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/jit/kernel_report.h"
#include "runtime/jit/nvrtc.h"
#include "synth/planner/synthesize.h"

namespace hetsynth::testing_support {
namespace {

using codegen::cuda::without_names;
using ::testing::HasSubstr;

const std::string halved =
    "// model.cpp:3  b = mul(a)\nextern \"C\" __global__ void __launch_bounds__(256) compute_b(const float* "
    "__restrict__ a, float* b) {\n  for (int at = 0; at < 12; ++at) {\n    const float b_ = a[at] * 0.5f;\n    b[at] "
    "= b_;\n  }\n}\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(WithoutNames, NamesAndCommentsDoNotCount) {
  std::string renamed = with(with(halved, "compute_b", "compute_y"), "model.cpp:3", "model.cpp:9");
  renamed = with(with(renamed, "b_ ", "y_ "), "b_;", "y_;");
  renamed = with(with(renamed, " a,", " x,"), "a[at]", "x[at]");
  EXPECT_NE(renamed, halved);
  EXPECT_EQ(without_names(renamed), without_names(halved));
}

TEST(WithoutNames, AllElseDoes) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"0.5f", "0.25f"},
                                                                                 {"< 12", "< 13"},
                                                                                 {"a[at] *", "b[at] *"},
                                                                                 {"b[at] =", "a[at] ="},
                                                                                 {"a[at]", "exp_f32(a[at])"},
                                                                                 {"const float* ", "const int* "},
                                                                                 {"(256)", "(128)"},
                                                                                 {"__restrict__ a", "a"}}) {
    ASSERT_NE(with(halved, from, to), halved) << from;
    EXPECT_NE(without_names(with(halved, from, to)), without_names(halved)) << from << " -> " << to;
  }
  EXPECT_NE(without_names(with(halved, "a[at] *", "log_f32(a[at]) *")),
            without_names(with(halved, "a[at] *", "exp_f32(a[at]) *")));
}

Program layers(int count) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    Tensor x = parameter("x", {8, 32}, normal(1));
    for (int i = 0; i < count; ++i) {
      Tensor w = parameter("w" + std::to_string(i), {32, 32}, normal(0.1));
      x = x + gelu(matmul(layernorm(x, parameter("gain" + std::to_string(i), {32}, ones()),
                                    parameter("bias" + std::to_string(i), {32}, zeros())),
                          w));
    }
    minimize(mean(x * x), AdamW{});
  });
  return differentiate(trace);
}

int count_of(const std::string& text, const std::string& word) {
  int out = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++out;
  return out;
}

struct Texts {
  std::string host, kernels;
  int launches() const { return count_of(host, "if (launch(context, compute_stream"); }
  int written() const { return count_of(kernels, "__global__"); }
};

Texts texts_of(const Program& program) {
  const Cluster cluster = cuda_cluster({1});
  const DeviceProgram device = generate(program, single_device_plan(program, cluster).program, cluster, 0);
  return {device.files.at(0).text, device.files.at(1).text};
}

TEST(SharedKernels, MoreLayersAreMoreLaunchesOfTheSameKernels) {
  const Texts four = texts_of(layers(4)), eight = texts_of(layers(8));
  EXPECT_GT(eight.launches(), four.launches() + 4 * 4) << "every layer launches its own";
  EXPECT_EQ(eight.written(), four.written());
  EXPECT_EQ(count_of(four.host, "    \"compute_"), four.written()) << "each is listed once for loading";
  EXPECT_THAT(eight.kernels, HasSubstr("// launched 8 times in a step, here by the names of the first:"));
}

TEST(KernelReports, AreReadFromTheCompilersWords) {
  const std::string log =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'one' for 'sm_80'\n"
      "ptxas info    : Function properties for one\n"
      "ptxas         .     16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Compile time = 3.250 ms\n"
      "ptxas info    : Compiling entry function 'two' for 'sm_80'\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 9 registers, 360 bytes cmem[0]\n";
  std::vector<KernelReport> kernels = read_assembler_report(log);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "one");
  EXPECT_EQ(kernels[0].registers, 32);
  EXPECT_EQ(kernels[0].shared_bytes, 1024);
  EXPECT_EQ(kernels[0].spilled_bytes, 36);
  EXPECT_EQ(kernels[0].stack_bytes, 16);
  EXPECT_EQ(kernels[0].milliseconds, 3.25);
  EXPECT_EQ(kernels[1].registers, 9);
  EXPECT_EQ(kernels[1].shared_bytes, 0);
  count_wide_accesses(
      ".visible .entry two(\n\tld.global.nc.v4.f32 {}\n\tld.global.f32 x\n\tst.global.v4.f32 y\n.visible .entry "
      "three(\n\tld.global.v4.f32 z\n",
      kernels);
  EXPECT_EQ(kernels[1].wide_loads, 1);
  EXPECT_EQ(kernels[1].wide_stores, 1);
  EXPECT_EQ(kernels[0].wide_loads, 0);
}

// Spills and 16-byte accesses are properties of the generated text: a kernel that walks elements four at a time must
// come out of the compiler that way, and no kernel of a step may keep its registers in memory.
TEST(KernelReports, NothingSpillsAndNeighboursAreReadTogether) {
  if (!cuda_toolkit().available) GTEST_SKIP() << "no NVRTC here: " << cuda_toolkit().problem;
  const std::string source = texts_of(layers(2)).kernels;
  for (const std::string architecture : {"sm_75", "sm_90"}) {
    const CompiledReport report = report_kernels(source, "layers.cu", architecture);
    ASSERT_EQ(report.problem, "");
    ASSERT_EQ(int(report.kernels.size()), count_of(source, "__global__"));
    for (const KernelReport& kernel : report.kernels) {
      EXPECT_EQ(kernel.spilled_bytes, 0) << kernel.name << " " << architecture;
      EXPECT_EQ(kernel.stack_bytes, 0) << kernel.name << " " << architecture;
      EXPECT_LE(kernel.registers, 128) << kernel.name << " " << architecture << ": two blocks of 256 no longer fit";
      const size_t begin = source.find(" " + kernel.name + "("), end = source.find("\n}\n", begin);
      const std::string text = source.substr(begin, end - begin);
      EXPECT_EQ(text.find("load4(") != std::string::npos, kernel.wide_loads > 0) << kernel.name;
      EXPECT_EQ(text.find("store4(") != std::string::npos, kernel.wide_stores > 0) << kernel.name;
    }
  }
}

}  // namespace
}  // namespace hetsynth::testing_support
