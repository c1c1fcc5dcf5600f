// The command line and GPUs on a machine without any: named errors, and what works all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* gpus = R"(name = "gpus"
[[host]]
inside = { bandwidth = "50 GB/s", latency = "8 us" }
  [[host.device]]
  model = "A100"
  count = 2
)";

bool has_gpu(const Workplace& place) { return place.run("doctor").out.find("\nGPU ") != std::string::npos; }

TEST(CudaCommands, RunSaysWithinSecondsWhatIsMissing) {
  const Workplace place;
  if (has_gpu(place)) GTEST_SKIP() << "this machine has a GPU";
  place.write("gpus.toml", gpus);
  const auto start = std::chrono::steady_clock::now();
  const Outcome ran = place.run("run model.cpp --cluster gpus.toml --steps 1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("is a cuda device, and this machine has no NVIDIA driver"),
                             HasSubstr("to mend:"), HasSubstr("plan, verify and inspect work for this cluster")));
}

TEST(CudaCommands, DoctorTellsWhatAClusterNeeds) {
  const Workplace place;
  if (has_gpu(place)) GTEST_SKIP() << "this machine has a GPU";
  place.write("gpus.toml", gpus);
  const Outcome told = place.run("doctor --cluster gpus.toml");
  EXPECT_EQ(told.code, 0) << "nothing that other clusters need is broken";
  EXPECT_THAT(told.out, AllOf(HasSubstr("gpus.toml cannot run here"), HasSubstr("no NVIDIA driver")));
  EXPECT_THAT(place.run("doctor --cluster c.toml").out, HasSubstr("c.toml: 2 cpu and 0 cuda devices can run here"));
}

TEST(CudaCommands, InspectWritesAProjectForNvcc) {
  const Workplace place;
  place.write("gpus.toml", gpus);
  ASSERT_EQ(place.run("plan model.cpp --cluster gpus.toml -o plan.json").code, 0);
  ASSERT_EQ(place.run("inspect model.cpp plan.json --out step").code, 0);
  for (const char* file : {"step/main.cu", "step/CMakeLists.txt", "step/ranks.h"})
    EXPECT_TRUE(place.exists(file)) << file;
  EXPECT_THAT(place.read("step/CMakeLists.txt"), HasSubstr("add_executable(rank0 main.cu rank0_host.cpp)"));
}

/// A P100 has no tensor cores: products of fp16 are float32's to it. A V100 has some.
TEST(CudaCommands, PlanSaysOfWhichProductsItKnowsNoSpeed) {
  const Workplace place;
  std::string model(small_model);
  const std::string product = "matmul(x, w1)";
  model.replace(model.find(product), product.size(), "matmul(cast(x, fp16), cast(w1, fp16))");
  place.write("half.cpp", model);
  for (const char* name : {"P100", "V100"})
    place.write(std::string(name) + ".toml",
                std::string("[[host]]\n  [[host.device]]\n  name = \"old\"\n  model = \"") + name + "\"\n");
  const std::string note =
      "products of fp16 count as fast as those of float32 on old, of which no matmul_fp16 is known";
  EXPECT_THAT(place.run("plan half.cpp --cluster P100.toml").out, HasSubstr(note));
  EXPECT_THAT(place.run("plan half.cpp --cluster V100.toml").out, ::testing::Not(HasSubstr("note:")));
  EXPECT_THAT(place.run("plan model.cpp --cluster P100.toml").out, ::testing::Not(HasSubstr("note:")));
}

}  // namespace
}  // namespace hetsynth::testing
