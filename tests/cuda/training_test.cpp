// hetsynth run's own path, from plan to loss, on clusters with GPUs: on doubles, which carry streams out in adversarial
// orders and hold every collective, access and event to the rules.
#include "training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/interface/device_program.h"
#include "runtime/jit/nvrtc.h"
#include "runtime/launch.h"
#include "synth/planner/pipelines.h"
#include "synth/planner/synthesize.h"
#include "tests/support/by_host.h"
#include "tests/support/detours.h"
#include "tests/support/nested_plan.h"
#include "tests/support/pipelined_plan.h"
#include "tests/support/window_plan.h"

namespace hetsynth::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_support::Eager;
using testing_support::MachineOptions;
using testing_support::Turns;

class CudaRun : public ::testing::TestWithParam<SmallModel> {};

void expect_float64_losses(const SmallModel& model, const Trained& trained) {
  const std::vector<double>& expected = float64_losses(model);
  ASSERT_EQ(trained.losses.size(), expected.size());
  for (size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(trained.losses[step], expected[step], model.bound * (1 + std::abs(expected[step]))) << "step " << step;
  EXPECT_EQ(trained.left_behind, "");
}

MachineOptions adversary(Eager eager, Turns turns) {
  MachineOptions options;
  options.eager = eager;
  options.turns = turns;
  return options;
}

TEST_P(CudaRun, OneRank) {
  const Cluster cluster = devices({1});
  const Plan plan = single_device_plan(program_of(GetParam()), cluster);
  expect_float64_losses(GetParam(), train_on_doubles(GetParam(), plan, cluster));
}

TEST_P(CudaRun, TwoUnevenRanksDataParallel) {
  const Cluster cluster = devices({1, 3});
  const Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  const Trained trained = train_on_doubles(GetParam(), plan, cluster, adversary(Eager::communication, Turns::reversed));
  expect_float64_losses(GetParam(), trained);
  EXPECT_THAT(trained.collectives, Each(Not(IsEmpty())));
}

TEST_P(CudaRun, FourUnevenRanksAsSynthesized) {
  const Cluster cluster = devices({1, 2, 3, 4});
  SynthesisOptions options;
  options.time_limit_seconds = 5;
  const Plan plan = synthesize(program_of(GetParam()), cluster, options);
  expect_float64_losses(GetParam(),
                        train_on_doubles(GetParam(), plan, cluster, adversary(Eager::random, Turns::shuffled)));
}

TEST_P(CudaRun, FiveUnevenRanksWithinTheirHostsFirst) {
  const Cluster cluster = devices({5, 1, 2, 4, 3});
  Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  for (const std::vector<int>& hosts : {std::vector<int>{3, 2}, {1, 3, 1}}) {
    plan.program = by_host(plan.program, hosts);
    expect_float64_losses(GetParam(),
                          train_on_doubles(GetParam(), plan, cluster, adversary(Eager::random, Turns::shuffled)));
  }
}

/// Values exchanged and handed out on detours: through GPUs that are alone on their host, and through leaders.
TEST(CudaDetours, FiveUnevenRanksWithinTheirHostsFirst) {
  for (const size_t number : {0, 1, 2}) {
    const SmallModel& model = small_models()[number];
    const Cluster cluster = devices({5, 1, 2, 4, 3});
    Plan plan = data_parallel_plan(program_of(model), cluster, RatioRule::proportional);
    plan.program = by_host(test::with_detours(program_of(model), plan.program), {1, 3, 1});
    EXPECT_GT(test::count_of(plan.program, Opcode::all_to_all), 4);
    EXPECT_GT(test::count_of(plan.program, Opcode::broadcast), 0);
    expect_float64_losses(model, train_on_doubles(model, plan, cluster, adversary(Eager::random, Turns::shuffled)));
  }
}

/// GPUs meet cpu devices in memory of the host.
TEST(MixedDetours, TwoHostsOfAGpuAndACpuWithinThemFirst) {
  const SmallModel& model = small_models()[0];
  const Cluster cluster = devices({1, 3, 1, 2}, {0, 2});
  Plan plan = data_parallel_plan(program_of(model), cluster, RatioRule::proportional);
  plan.program = by_host(test::with_detours(program_of(model), plan.program), {2, 2});
  expect_float64_losses(model, train_on_doubles(model, plan, cluster));
}

TEST_P(CudaRun, SixUnevenRanksInGroups) {
  const Cluster cluster = devices({5, 1, 2, 4, 3, 2});
  Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  plan.program = test::nested_plan(plan.program, 2);
  expect_float64_losses(GetParam(),
                        train_on_doubles(GetParam(), plan, cluster, adversary(Eager::random, Turns::shuffled)));
}

TEST_P(CudaRun, FiveUnevenRanksDataParallel) {
  const Cluster cluster = devices({5, 1, 2, 4, 3});
  const Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  expect_float64_losses(GetParam(),
                        train_on_doubles(GetParam(), plan, cluster, adversary(Eager::random, Turns::forward)));
}

TEST_P(CudaRun, TwoStagesOfTwoRanks) {
  const Cluster two = devices({1, 3}), four = devices({1, 3, 1, 3});
  Plan plan = data_parallel_plan(program_of(GetParam()), two, RatioRule::proportional);
  plan.program = test::pipelined_plan(program_of(GetParam()), plan.program, 2);
  plan.devices = identify_plan(program_of(GetParam()), four).devices;
  const Trained trained = train_on_doubles(GetParam(), plan, four, adversary(Eager::communication, Turns::shuffled));
  expect_float64_losses(GetParam(), trained);
  EXPECT_THAT(trained.collectives[0], ::testing::Contains(HasSubstr("send ")));
  EXPECT_THAT(trained.collectives[2], ::testing::Contains(HasSubstr("receive ")));
}

/// Turns that overlap: a stage computes, exchanges data within its group, and sends and receives both ways at once,
/// whichever stream goes ahead.
TEST(CudaStages, OverlappingTurnsHaveTheLossesOfTheWholeStep) {
  for (const size_t number : {0, 1}) {
    const SmallModel& model = small_models()[number];
    const Cluster cluster = devices({1, 1, 1, 1});
    for (const int stages : {2, 4}) {
      std::vector<TurnTrial> tried;
      const std::optional<PipelinePlan> pipeline =
          best_pipeline(program_of(model), cluster, {.stages = stages, .turns = 3}, &tried);
      ASSERT_TRUE(pipeline) << model.name << ", " << stages << " stages";
      const std::vector<LoopSchedule::Run>& order = pipeline->plan.program.schedules.at(0).order;
      EXPECT_FALSE(std::ranges::is_sorted(order, {}, &LoopSchedule::Run::turn)) << "turns overlap";
      const std::string text =
          generate(pipeline->program, pipeline->plan.program, ranks_of(pipeline->plan, cluster), 1).files.at(0).text;
      EXPECT_THAT(text, AnyOf(HasSubstr("context->rising_stream"), HasSubstr("context->falling_stream")));
      for (const Eager eager : {Eager::compute, Eager::communication, Eager::random})
        expect_float64_losses(model, train_on_doubles(model, pipeline->plan, cluster, adversary(eager, Turns::shuffled),
                                                      &pipeline->program));
    }
  }
}

TEST(CudaProfile, TellsEveryKernelProductAndTransferOfAStepAndChangesNothing) {
  const SmallModel& model = small_models()[0];
  const Program& program = program_of(model);
  const Cluster cluster = devices({1, 3});
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  testing_support::MachineOptions options;
  options.gpus = 2, options.traces_kernels = false;
  const testing_support::CudaDoubles machine(options);
  const auto data = data_of(program);
  LaunchOptions launched;
  launched.executor.seed = small_seed;
  launched.cuda = &machine.backend();
  {
    const auto executor = launch(program, plan.program, cluster, launched);
    for (int step = 0; step < small_steps - 1; ++step) executor->step(step, *data);
    const std::vector<std::vector<TimedWork>> work = executor->profile(small_steps - 1, *data);
    ASSERT_EQ(work.size(), 2u);
    for (const std::vector<TimedWork>& rank : work) {
      int calls[3] = {};
      for (const TimedWork& w : rank) {
        calls[int(w.kind)] += w.calls;
        EXPECT_NEAR(w.seconds, w.calls * 1e-3, 1e-9) << w.name << ": each call takes 1 ms on doubles";
      }
      EXPECT_GE(calls[int(TimedWork::Kind::kernel)], 5);
      EXPECT_GE(calls[int(TimedWork::Kind::product)], 2);
      EXPECT_GE(calls[int(TimedWork::Kind::transfer)], 2) << "the loss, and a bucket";
    }
    const StepReport next = executor->step(small_steps, *data);
    EXPECT_TRUE(std::isfinite(next.loss)) << "steps go on as before";
  }
  EXPECT_EQ(machine.left_behind(), "");
}

class MixedRun : public ::testing::TestWithParam<SmallModel> {};

TEST_P(MixedRun, TwoGpusAndTwoCpus) {
  const Cluster cluster = devices({1, 3, 1, 2}, {0, 2});
  const Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  const Trained trained = train_on_doubles(GetParam(), plan, cluster, adversary(Eager::communication, Turns::forward));
  expect_float64_losses(GetParam(), trained);
  // The GPUs add up among themselves, and the first of them hands the sum of all back.
  EXPECT_THAT(trained.collectives[0], ::testing::Contains(HasSubstr("reduce ")));
  EXPECT_THAT(trained.collectives[1], ::testing::Contains(HasSubstr("broadcast ")));
}

TEST_P(MixedRun, TwoHostsOfAGpuAndACpuWithinThemFirst) {
  const Cluster cluster = devices({1, 3, 1, 2}, {0, 2});
  Plan plan = data_parallel_plan(program_of(GetParam()), cluster, RatioRule::proportional);
  plan.program = by_host(plan.program, {2, 2});
  const Trained trained = train_on_doubles(GetParam(), plan, cluster);
  expect_float64_losses(GetParam(), trained);
}

TEST_P(MixedRun, AStageOfAGpuAndOneOfACpu) {
  const Cluster one = devices({1}), two = devices({3, 1}, {1});
  Plan plan = single_device_plan(program_of(GetParam()), one);
  plan.program = test::pipelined_plan(program_of(GetParam()), plan.program, 2);
  plan.devices = identify_plan(program_of(GetParam()), two).devices;
  expect_float64_losses(GetParam(), train_on_doubles(GetParam(), plan, two));
}

TEST_P(MixedRun, OneGpuAndOneCpuAsSynthesized) {
  const Cluster cluster = devices({3, 1}, {1});
  SynthesisOptions options;
  options.time_limit_seconds = 5;
  const Plan plan = synthesize(program_of(GetParam()), cluster, options);
  expect_float64_losses(GetParam(), train_on_doubles(GetParam(), plan, cluster));
}

/// Images divided by rows between GPUs and cpu devices: what lies around a GPU's part goes through the host.
TEST(MixedRows, TwoGpusAndTwoCpus) {
  const SmallModel& model = small_models()[3];
  const Program& program = program_of(model);
  const Cluster cluster = devices({1, 3, 1, 2}, {0, 2});
  std::set<std::string> images;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && node.type.shape.size() == 4) images.insert(node.name);
  Plan plan = identify_plan(program, cluster);
  plan.program = test::window_plan(program, {{"rows", 2, {0, 1, 3, 3, 4}}}, images);
  EXPECT_GE(test::count_of(plan.program, Opcode::halo_exchange), 4);
  expect_float64_losses(model, train_on_doubles(model, plan, cluster));
}

TEST(CudaArchitectures, AllThatNvrtcKnowsCompileAGptWithAttentionInBlocksAnd16Bits) {
  if (!cuda_toolkit().available) GTEST_SKIP() << "no NVRTC here: " << cuda_toolkit().problem;
  for (const auto& [number, product] :
       {std::pair(4, "hetsynth_device_matmul_bf16(context"), {5, "hetsynth_device_matmul_fp16(context"}}) {
    const Program& program = program_of(small_models().at(size_t(number)));
    const Cluster cluster = devices({1});
    const DeviceProgram device = generate(program, single_device_plan(program, cluster).program, cluster, 0);
    EXPECT_THAT(device.files.at(0).text, HasSubstr(product));
    EXPECT_THAT(device.files.at(1).text, HasSubstr("(online softmax)"));
    for (const std::string& architecture : cuda_toolkit().architectures) {
      const CudaCode code = compile_cuda(device.files.at(1).text, device.files.at(1).name, architecture);
      EXPECT_TRUE(code.ok()) << architecture << "\n" << code.log;
      EXPECT_EQ(code.log, "") << architecture;
    }
  }
}

/// A T4 has no bf16; attention by tensor cores has heads of 16 features.
TEST(CudaArchitectures, AGptInFp16TrainsOnTuring) {
  SmallModel model = small_models().at(5);
  model.name = "GptFp16OfWideHeads";
  model.settings["width"] = "32";
  MachineOptions options;
  options.gpus = 2;
  options.major = 7, options.minor = 5;
  Cluster cluster = devices({1, 3});
  for (Device& device : cluster.devices) device.architecture = "sm_75";
  const Plan plan = data_parallel_plan(program_of(model), cluster, RatioRule::proportional);
  EXPECT_THAT(generate(program_of(model), plan.program, cluster, 0).files.at(1).text,
              ::testing::ContainsRegex("mma_fp16\\(\\w+_part"));
  expect_float64_losses(model, train_on_doubles(model, plan, cluster, options));
}

INSTANTIATE_TEST_SUITE_P(Models, MixedRun, ::testing::ValuesIn(small_models().begin(), small_models().begin() + 3),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Models, CudaRun, ::testing::ValuesIn(small_models()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hetsynth::testing
