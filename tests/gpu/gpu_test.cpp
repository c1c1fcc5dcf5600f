// What needs a GPU: generated kernels and training steps on it, against the float64 interpreter and the cpu backend.
// Without one every test is skipped and says why; with HETSYNTH_GPU_DOUBLES set they run on doubles, so that these
// lines have been executed before they come to a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "codegen/interface/device_program.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/nccl_ranks.h"
#include "runtime/jit/cuda_libraries.h"
#include "runtime/launch.h"
#include "runtime/rank/host_tensor.h"
#include "runtime/training/train.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/attention_heads.h"
#include "tests/codegen/cuda_programs.h"
#include "tests/cuda/training.h"
#include "tests/gpu/gpu_parts.h"
#include "tests/gpu/one_gpu_nccl.h"

namespace hetsynth::testing {
namespace {

using testing_support::all_samples;
using testing_support::cuda_cluster;
using testing_support::random_contents;
using testing_support::SampleProgram;
using testing_support::split_samples;

bool on_doubles() { return std::getenv("HETSYNTH_GPU_DOUBLES") != nullptr; }

const cuda::Backend& backend() {
  if (!on_doubles()) return cuda::this_machine();
  static const testing_support::CudaDoubles machine([] {
    testing_support::MachineOptions options;
    options.traces_kernels = false;
    return options;
  }());
  return machine.backend();
}

/// Doubles take seconds for a step.
int64_t steps_of(int64_t on_gpu) { return on_doubles() ? 3 : on_gpu; }

/// "" if GPU 0 can run ranks.
std::string no_gpu() {
  if (on_doubles()) return "";
  const std::vector<CudaDevice> gpus = cuda_devices();
  if (gpus.empty()) return "no GPU here: " + cuda::api().driver_problem;
  try {
    cuda::require_cuda(cuda::this_machine(), devices({1}).devices);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu(); !reason.empty()) GTEST_SKIP() << "ranks cannot run here: " << reason;
  }
};

class GivenInputs : public BatchSource {
 public:
  explicit GivenInputs(const Bindings& contents) : contents_(contents) {}
  void fill(const Node& input, std::span<const Range> ranges, int64_t, std::span<std::byte> out) const override {
    copy_part_out(to_host_tensor(contents_.at(input.id), input.type.dtype), ranges, out);
  }
  std::string description() const override { return "the test's"; }

 private:
  const Bindings& contents_;
};

TEST_F(OnGpu, EveryKernelOfEveryOperatorEqualsTheInterpreter) {
  const SampleProgram samples = all_samples();
  const Program& reference = samples.program;
  Bindings leaves;
  for (const auto& [leaf, domain] : samples.domains) leaves[leaf] = random_contents(reference[leaf], domain, 5);
  constexpr uint64_t seed = 77;
  const std::vector<Array> expected = interpret(reference, leaves, {seed, 3});
  const SpmdProgram program = split_samples(reference, 1, 0);
  LaunchOptions options;
  options.executor.seed = seed;
  options.cuda = &backend();
  const auto executor = launch(reference, program, cuda_cluster({1}), options);
  for (const auto& [leaf, contents] : leaves)
    executor->write(leaf, to_host_tensor(contents, reference[leaf].type.dtype));
  executor->step(3, GivenInputs({}));
  for (const NamedOutput& output : reference.outputs) {
    const Array found = to_array(executor->read(output.node));
    const Array& wanted = expected[size_t(output.node)];
    double worst = 0;
    for (size_t i = 0; i < wanted.values.size(); ++i)
      if (found.values[i] != wanted.values[i])
        worst = std::max(worst, std::abs(found.values[i] - wanted.values[i]) / (1 + std::abs(wanted.values[i])));
    // As on doubles; the GPU's own exp, tanh and pow are within 2 ulp, TF32 is not used.
    EXPECT_LE(worst, 5e-5) << output.name;
  }
}

class AttentionOnGpu : public OnGpu, public ::testing::WithParamInterface<testing_support::Heads> {};

TEST_P(AttentionOnGpu, OfOperandsOf16BitsEqualsTheInterpreter) {
  const Program program = testing_support::program_of(GetParam());
  Cluster cluster = cuda_cluster({1});
  if (!on_doubles()) cluster.devices[0].architecture = cuda::require_cuda(backend(), cluster.devices).front();
  const Bindings leaves = initial_values(program, 7);
  const EvaluationContext context{7, 3};
  const std::vector<Array> expected = interpret(program, leaves, context);
  LaunchOptions options;
  options.executor.seed = context.seed;
  options.cuda = &backend();
  const auto executor = launch(program, single_device_plan(program, cluster).program, cluster, options);
  executor->step(context.step, GivenInputs({}));
  for (const Update& update : program.updates) {
    const Array found = to_array(executor->read(update.target));
    const Array& wanted = expected[size_t(update.value)];
    for (size_t i = 0; i < wanted.values.size(); ++i)
      ASSERT_NEAR(found.values[i], wanted.values[i],
                  testing_support::attention_bound(GetParam()) * (1 + std::abs(wanted.values[i])))
          << program[update.target].name << " element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, AttentionOnGpu, ::testing::ValuesIn([] {
                           std::vector<testing_support::Heads> heads = testing_support::heads_for_tensor_cores();
                           if (on_doubles()) heads.resize(1);  // the others are among the generator's own tests
                           return heads;
                         }()),
                         [](const auto& info) { return testing_support::text(info.param); });

std::vector<double> losses(const Program& program, const Cluster& cluster, const SpmdProgram& plan, int64_t steps) {
  const auto data = data_of(program);
  LaunchOptions options;
  options.executor.seed = small_seed;
  options.cuda = &backend();
  const auto executor = launch(program, plan, cluster, options);
  TrainOptions training;
  training.steps = steps;
  return train(*executor, *data, training).losses;
}

class TrainingOnGpu : public OnGpu, public ::testing::WithParamInterface<SmallModel> {};

TEST_P(TrainingOnGpu, FiftyStepsEqualTheCpuBackend) {
  const Program& program = program_of(GetParam());
  const Cluster gpu = devices({1}), cpu = devices({1}, {0});
  const std::vector<double> on_gpu = losses(program, gpu, single_device_plan(program, gpu).program, steps_of(50));
  const std::vector<double> on_cpu = losses(program, cpu, single_device_plan(program, cpu).program, steps_of(50));
  // Sums in another order, and 50 steps of an optimizer that divides by small numbers.
  for (size_t step = 0; step < on_cpu.size(); ++step)
    ASSERT_NEAR(on_gpu[step], on_cpu[step], 2e-3 * (1 + std::abs(on_cpu[step]))) << "step " << step;
}

/// Attention by cuDNN against generated kernels, on the same GPU.
TEST_F(OnGpu, AttentionByCudnnTrainsAsGeneratedKernelsDo) {
  if (!backend().api->has_cudnn) GTEST_SKIP() << backend().api->cudnn_problem;
  const SmallModel model{
      "GptHeadsOf8",
      "gpt.cpp",
      {{"layers", "1"}, {"heads", "2"}, {"width", "16"}, {"seq", "16"}, {"batch", "6"}, {"precision", "bf16"}}};
  const Program& program = program_of(model);
  Cluster generated = devices({1}), cudnn = generated;
  cudnn.devices[0].declared.attention = AttentionBy::cudnn;
  const SpmdProgram plan = single_device_plan(program, generated).program;
  ASSERT_NE(generate(program, plan, cudnn, 0).files.at(0).text.find("hetsynth_device_attention(context"),
            std::string::npos);
  const std::vector<double> expected = losses(program, generated, plan, steps_of(50));
  const std::vector<double> found = losses(program, cudnn, plan, steps_of(50));
  // cuDNN rounds its results to bf16, by 2^-9 of themselves; the steps of the optimizer carry that on.
  for (size_t step = 0; step < expected.size(); ++step)
    ASSERT_NEAR(found[step], expected[step], 1e-2 * (1 + std::abs(expected[step]))) << "step " << step;
}

/// Several ranks on one GPU: NCCL 2.30 and later allow it when asked.
TEST_P(TrainingOnGpu, TwoAndFourNcclRanksEqualOne) {
  if (on_doubles()) GTEST_SKIP() << "doubles of NCCL want a GPU for each rank";
  int version = 0;
  if (!cuda::api().has_nccl || cuda::api().nccl.version(&version) || version < 23000)
    GTEST_SKIP() << "ranks of NCCL before 2.30 need a GPU each, and this is "
                 << (cuda::api().has_nccl ? cuda::nccl_version_text(version) : cuda::api().nccl_problem);
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  const Program& program = program_of(GetParam());
  const Cluster one = devices({1});
  const std::vector<double> expected = losses(program, one, single_device_plan(program, one).program, steps_of(10));
  for (const std::vector<double>& speeds : {std::vector<double>{1, 3}, std::vector<double>{4, 2, 1, 1}}) {
    Cluster cluster = devices(speeds);
    for (Device& device : cluster.devices) device.index = 0;
    const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
    const std::vector<double> found = losses(program, cluster, plan.program, steps_of(10));
    for (size_t step = 0; step < expected.size(); ++step)
      ASSERT_NEAR(found[step], expected[step], 2e-3 * (1 + std::abs(expected[step])))
          << speeds.size() << " ranks, step " << step;
  }
}

/// One GPU as four devices of 64, 32, 16 and 16 multiprocessors: unequal in computing, alike in memory, without links.
TEST_P(TrainingOnGpu, FourUnequalGreenContextsEqualOneRank) {
  const std::vector<int> multiprocessors = {64, 32, 16, 16};
  const cuda::Driver& driver = backend().api->driver;
  if (const std::string reason = why_not_parted(driver, multiprocessors); !reason.empty())
    GTEST_SKIP() << "GPU 0 is not cut into devices of 64, 32, 16 and 16 multiprocessors: " << reason;
  const Program& program = program_of(GetParam());
  const Cluster one = devices({1});
  // Doubles carry the streams of all four ranks out one by one.
  const int64_t steps = on_doubles() ? 1 : 10;
  const std::vector<double> expected = losses(program, one, single_device_plan(program, one).program, steps);
  Cluster cluster = devices({4, 2, 1, 1});
  for (Device& device : cluster.devices) device.index = 0;
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  const GpuParts parts(driver, multiprocessors);
  const OneGpuNccl ranks(backend(), cuda::require_cuda(backend(), one.devices).front());
  LaunchOptions options;
  options.executor.seed = small_seed;
  options.cuda = &ranks.backend();
  options.parts = &parts.parts();
  TrainOptions training;
  training.steps = steps;
  const auto data = data_of(program);
  const auto executor = launch(program, plan.program, cluster, options);
  const TrainReport found = train(*executor, *data, training);
  for (size_t step = 0; step < expected.size(); ++step)
    ASSERT_NEAR(found.losses[step], expected[step], 2e-3 * (1 + std::abs(expected[step]))) << "step " << step;
  // The share of each step that a rank waits for others is what shares by multiprocessors leave.
  std::printf("64, 32, 16 and 16 multiprocessors: %s\n", summary(found).c_str());
}

TEST_P(TrainingOnGpu, AGpuAndACpuEqualOneRank) {
  const Program& program = program_of(GetParam());
  const Cluster cluster = devices({3, 1}, {1}), one = devices({1});
  const Plan plan = data_parallel_plan(program, cluster, RatioRule::proportional);
  const std::vector<double> found = losses(program, cluster, plan.program, steps_of(10));
  const std::vector<double> expected = losses(program, one, single_device_plan(program, one).program, steps_of(10));
  for (size_t step = 0; step < expected.size(); ++step)
    ASSERT_NEAR(found[step], expected[step], 2e-3 * (1 + std::abs(expected[step]))) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Models, TrainingOnGpu, ::testing::ValuesIn(small_models()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hetsynth::testing
