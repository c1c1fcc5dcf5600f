// The probe of GPUs, on doubles: what it runs is right by their rules, and every figure is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/base/error.h"
#include "runtime/cuda/cuda_probe.h"
#include "training.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using testing_support::CudaDoubles;
using testing_support::MachineOptions;

const cuda::GpuProbeOptions brief{8, 4096, 1024, 300, 0.001};

MachineOptions machine_of(int gpus) {
  MachineOptions options;
  options.gpus = gpus;
  return options;
}

TEST(GpuProbe, MeasuresTwoGpusAndTheirLink) {
  CudaDoubles machine(machine_of(2));
  const ProbeResult result = cuda::probe_gpus(machine.backend(), devices({1, 1}).devices, brief);
  const DeviceSpeed& speed = result.speed;
  for (const auto& figure : {speed.matmul_flops_per_second, speed.memory_bytes_per_second, speed.loop_flops_per_second,
                             speed.loop_call_seconds}) {
    ASSERT_TRUE(figure.has_value());
    EXPECT_GT(*figure, 0);
  }
  EXPECT_GE(speed.matmul_call_seconds.value(), 0);
  EXPECT_FALSE(speed.convolution_flops_per_second.has_value());
  EXPECT_GT(result.link.bandwidth_bytes_per_second, 0);
  EXPECT_TRUE(std::isfinite(result.link.bandwidth_bytes_per_second));
  for (int gpu : {0, 1}) EXPECT_THAT(machine.take_collectives(gpu), Each(HasSubstr("all_gather")));
  EXPECT_EQ(machine.left_behind(), "");
}

TEST(GpuProbe, ProductsAreMeasuredByTypeAsFarAsTheGpuHasThem) {
  MachineOptions options = machine_of(1);
  const auto speed = [&] {
    CudaDoubles machine(options);
    return cuda::probe_gpus(machine.backend(), devices({1}).devices, brief).speed;
  };
  const DeviceSpeed ampere = speed();
  for (const auto& figure : {ampere.matmul_tf32_flops_per_second, ampere.matmul_bf16_flops_per_second,
                             ampere.matmul_fp16_flops_per_second}) {
    ASSERT_TRUE(figure.has_value());
    EXPECT_GT(*figure, 0);
  }
  options.major = 7, options.minor = 5;
  const DeviceSpeed turing = speed();
  EXPECT_GT(turing.matmul_flops_per_second.value(), 0);
  EXPECT_GT(turing.matmul_fp16_flops_per_second.value(), 0);
  EXPECT_FALSE(turing.matmul_tf32_flops_per_second.has_value());
  EXPECT_FALSE(turing.matmul_bf16_flops_per_second.has_value());
}

TEST(GpuProbe, EpiloguesAreThoseThatTheLibraryHas) {
  MachineOptions options = machine_of(1);
  {
    CudaDoubles machine(options);
    const ProbeResult result = cuda::probe_gpus(machine.backend(), devices({1}).devices, brief);
    ASSERT_TRUE(result.speed.epilogues.has_value());  // which of them are faster on doubles is chance
    EXPECT_EQ(machine.left_behind(), "");
  }
  options.has_epilogues = false;
  CudaDoubles machine(options);
  EXPECT_EQ(cuda::probe_gpus(machine.backend(), devices({1}).devices, brief).speed.epilogues, FusedProducts{});
}

TEST(GpuProbe, OneGpuHasNoLink) {
  CudaDoubles machine(machine_of(1));
  const ProbeResult result = cuda::probe_gpus(machine.backend(), devices({1}).devices, brief);
  EXPECT_TRUE(std::isinf(result.link.bandwidth_bytes_per_second));
  EXPECT_EQ(machine.left_behind(), "");
}

TEST(GpuProbe, SaysWhatIsMissing) {
  MachineOptions options = machine_of(1);
  options.has_driver = false;
  CudaDoubles machine(options);
  try {
    cuda::probe_gpus(machine.backend(), devices({1}).devices, brief);
    FAIL() << "a GPU was measured without a driver";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libcuda.so.1")));
  }
}

}  // namespace
}  // namespace hetsynth::testing
