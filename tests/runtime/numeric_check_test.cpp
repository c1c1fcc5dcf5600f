// Generated code beside the interpreter: right code keeps to the bound of rounding on every tensor, wrong code does
// not.
#include "runtime/training/numeric_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "runtime/launch.h"
#include "synth/planner/synthesize.h"
#include "tests/runtime/models.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"

namespace hetsynth {
namespace {

using namespace testing;  // NOLINT: fixtures of this folder

constexpr uint64_t seed = 11;

struct Case {
  TemporaryFolder folder;
  Program program;
  Cluster cluster = cpu_cluster({1, 3});
  std::unique_ptr<BatchSource> data;

  explicit Case(Program traced, bool reads_text = true) : program(std::move(traced)) {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += "the quick brown fox jumps over the lazy dog. "[(i * i / 7) % 45];
    folder.write("text", text);
    data = open_data(program, {reads_text ? folder.path("text") : "", seed});
  }
  NumericCheck check(const SpmdProgram& plan, const std::vector<DeviceProgram>* programs = nullptr) const {
    LaunchOptions options;
    options.executor.seed = seed;
    options.executor.threads.threads_per_rank = 1;
    options.optimization = 1;
    options.programs = programs;
    return check_numerically(*launch(program, plan, cluster, options), *data);
  }
};

void expect_agreement(const Case& c, const SpmdProgram& plan) {
  const NumericCheck check = c.check(plan);
  EXPECT_GT(check.tensors.size(), 3u);
  for (const TensorError& t : check.tensors) {
    EXPECT_LE(t.error, t.bound) << t.name;
    // A bound that everything keeps to says nothing.
    EXPECT_LT(t.bound, 1e-2 * (t.largest + 1e-3)) << t.name;
  }
  EXPECT_TRUE(check.agrees());
}

/// Constants that no float32 reaches are infinite or zero for the interpreter too, and what is no number in both
/// agrees.
TEST(NumericCheck, OfNumbersThatNoFloatReachesAgree) {
  for (const double constant : {1e39, 1e-46, -1e300}) {
    Trace trace("constants.cpp");
    run_builder(trace, [&] {
      const Tensor w = parameter("w", {2, 3}, ones());
      const Tensor gain = parameter("gain", {3}, ones()), bias = parameter("bias", {3}, zeros());
      const Tensor level = w / maximum(w, constant) + relu(w * 0 - constant);
      minimize(sum(square(level)) + sum(layernorm(w * w, gain, bias, std::abs(constant))),
               Adam{.epsilon = std::abs(constant)});
    });
    const Case c(differentiate(trace), /*reads_text=*/false);
    const NumericCheck check = c.check(data_parallel_plan(c.program, c.cluster, RatioRule::proportional).program);
    EXPECT_TRUE(check.agrees()) << constant << ": " << check.worst()->name;
  }
}

TEST(NumericCheck, PlansOfSmallModelsAgree) {
  for (const Program& program : {small_mlp(), small_gpt(), small_recurrent()}) {
    const Case c(program);
    expect_agreement(c, data_parallel_plan(c.program, c.cluster, RatioRule::proportional).program);
    expect_agreement(c, synthesize(c.program, c.cluster).program);
  }
  const Case cnn(small_cnn(), /*reads_text=*/false);
  expect_agreement(cnn, data_parallel_plan(cnn.program, cnn.cluster, RatioRule::proportional).program);
}

TEST(NumericCheck, AMissingSumOverDevicesIsFound) {
  const Case c(small_mlp());
  SpmdProgram plan = data_parallel_plan(c.program, c.cluster, RatioRule::proportional).program;
  for (Instruction& i : plan.instructions)
    if (i.opcode == Opcode::all_reduce && plan.values[size_t(i.result)].node != c.program.loss) {
      i.opcode = Opcode::broadcast;
      break;
    }
  const NumericCheck check = c.check(plan);
  EXPECT_FALSE(check.agrees());
  ASSERT_NE(check.worst(), nullptr);
  EXPECT_GT(check.worst()->error, 10 * check.worst()->bound);
}

/// The learning rate in the generated text, changed by a three hundredth.
TEST(NumericCheck, AWrongConstantInGeneratedTextIsFound) {
  const Case c(small_mlp());
  const SpmdProgram plan = data_parallel_plan(c.program, c.cluster).program;
  std::vector<DeviceProgram> programs;
  for (int rank = 0; rank < 2; ++rank) programs.push_back(generate(c.program, plan, c.cluster, rank));
  EXPECT_TRUE(c.check(plan, &programs).agrees());
  for (DeviceProgram& program : programs) {
    std::string& text = program.files[0].text;
    const size_t at = text.find("0.3f * ");
    ASSERT_NE(at, std::string::npos) << text;
    text.replace(at, 4, "0.301f");
  }
  EXPECT_FALSE(c.check(plan, &programs).agrees());
}

}  // namespace
}  // namespace hetsynth
