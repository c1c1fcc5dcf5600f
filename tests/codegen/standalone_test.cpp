// The stand-alone project: builds outside of hetsynth and computes the same loss on one rank and on three.
#include "codegen/standalone.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "dsl/transform/differentiate.h"
#include "harness.h"
#include "hetsynth/hetsynth.h"
#include "models.h"
#include "synth/planner/synthesize.h"
#include "tests/support/pipelined_plan.h"
#include "tests/support/window_plan.h"

namespace hetsynth::test {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hetsynth-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string out;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  int status = pclose(pipe);
  if (status != 0) throw std::runtime_error(command + "\n" + out);
  return out;
}

/// What the project's program prints, built with warnings as errors.
double loss_of_project(const Program& program, const SpmdProgram& plan, const Cluster& cluster,
                       const std::string& compiler = "") {
  Folder folder;
  write_standalone_project(folder.path() + "/project", program, plan, cluster);
  std::string build = folder.path() + "/build";
  output_of("cmake -G Ninja -S " + folder.path() + "/project -B " + build + " -DCMAKE_CXX_FLAGS=-Werror" +
            (compiler.empty() ? "" : " -DCMAKE_CXX_COMPILER=" + compiler));
  output_of("cmake --build " + build);
  std::string printed = output_of(build + "/step");
  EXPECT_THAT(printed, testing::StartsWith("loss "));
  return std::stod(printed.substr(5));
}

/// With `stages`, the layers lie on so many groups of such devices.
double loss_of_project(const Program& program, std::vector<double> speeds, int stages = 1) {
  const size_t group = speeds.size();
  for (int stage = 1; stage < stages; ++stage)
    speeds.insert(speeds.end(), speeds.begin(), speeds.begin() + long(group));
  Cluster cluster = cpu_cluster(int(speeds.size()));
  for (size_t i = 0; i < speeds.size(); ++i) {
    cluster.devices[i].memory_bytes = int64_t(1) << 30;
    cluster.devices[i].declared = {speeds[i], 1e10};
  }
  cluster.hosts[0].inside = {10e9, 1e-6};
  Cluster of_stage = cluster;
  of_stage.devices.resize(group);
  SpmdProgram plan = data_parallel_plan(program, of_stage, RatioRule::proportional).program;
  if (stages > 1) plan = pipelined_plan(program, plan, stages);
  return loss_of_project(program, plan, cluster);
}

TEST(Standalone, BuildsOutsideOfHetsynthAndAgreesOverRanks) {
  Program program = mlp_program();
  double one = loss_of_project(program, {1e9}), three = loss_of_project(program, {1e9, 2e9, 1e9});
  EXPECT_NEAR(one, std::log(256), 0.5) << "an untrained model knows nothing about 256 bytes";
  EXPECT_NEAR(one, three, 1e-5) << "float32 sums in another order";
}

/// By both compilers: g++ has another opinion of conversions between integers than clang.
TEST(Standalone, Fp16IsComputedWithAndReducedAsInHetsynth) {
  Trace trace("half.cpp");
  run_builder(trace, [] {
    mixed_precision("fp16", DynamicLossScale{});
    auto [x, labels] = synthetic_batch(12, 6, 3);
    Tensor h = tanh(matmul(x, parameter("w1", {6, 10}, normal(0.3))));
    minimize(cross_entropy(matmul(h, parameter("w2", {10, 3}, normal(0.3))), labels), SGD{});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9, 3e9});
  const SpmdProgram split = tensor_parallel_plan(program, cluster).program;
  double whole = 0;
  for (const char* compiler : {"g++", "clang++-19"}) {
    if (std::system((std::string(compiler) + " --version > /dev/null 2>&1").c_str()) != 0) continue;
    SCOPED_TRACE(compiler);
    whole = loss_of_project(program, whole_program(program), cpu_cluster(1), compiler);
    EXPECT_NEAR(whole, std::log(3), 0.3);
    // Sums in another order may round to a neighbour, 2^-10 apart.
    EXPECT_NEAR(loss_of_project(program, split, cluster, compiler), whole, 1e-3);
  }
  EXPECT_GT(whole, 0) << "one of the two is there";
}

TEST(Standalone, StagesSendToEachOther) {
  Program program = mlp_program();
  EXPECT_NEAR(loss_of_project(program, {1e9}), loss_of_project(program, {1e9, 2e9}, 2), 1e-5);
}

/// Shares of rows that are empty and smaller than what windows reach over.
TEST(Standalone, ImagesByRowsExchangeWhatWindowsReachOver) {
  Trace trace("rows.cpp");
  run_builder(trace, [] {
    auto [images, labels] = synthetic_images(2, 2, 16, 6, 5);
    Tensor x = conv2d(images, parameter("w0", {3, 2, 7, 3}, normal(0.3)), {.stride = {2, 1}, .padding = {3, 1}});
    x = conv2d(max_pool2d(x, 3, {.stride = 1, .padding = 1}), parameter("w1", {5, 3, 3, 3}, normal(1)), {.padding = 1});
    minimize(cross_entropy(mean(mean(x, 3), 2), labels), SGD{});
  });
  const Program program = differentiate(trace);
  std::string images;
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::input && node.type.shape.size() == 4) images = node.name;
  const SpmdProgram plan = window_plan(program, {{"rows", 2, {0, 1, 1, 2, 8}}}, {images});
  EXPECT_GE(count_of(plan, Opcode::halo_exchange), 3);
  const double whole = loss_of_project(program, whole_program(program), cpu_cluster(1));
  EXPECT_NEAR(loss_of_project(program, plan, cpu_cluster(4)), whole, 2e-5) << "float32 sums in another order";
}

TEST(Standalone, ADirectoryThatCannotBeMadeIsNamed) {
  Program program = mlp_program();
  try {
    write_standalone_project("/proc/nothing/here", program, whole_program(program), cpu_cluster(1));
    FAIL() << "wrote into /proc";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/proc/nothing/here"));
    EXPECT_THAT(error.what(), testing::HasSubstr("the directory cannot be made"));
    EXPECT_EQ(error.code(), ExitCode::failure);
  }
}

}  // namespace
}  // namespace hetsynth::test
