// Clusters, pins and limits at the edge of what makes sense: a correct plan or a named reason, soon, and always the
// same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Hosts of cpu devices.
std::string cluster(int hosts, int devices, const std::string& memory) {
  return "[between]\nbandwidth = \"10 Gb/s\"\nlatency = \"30 us\"\n[[host]]\ncount = " + std::to_string(hosts) +
         "\ninside = { bandwidth = \"10 GB/s\", latency = \"1 us\" }\n[[host.device]]\nkind = \"cpu\"\ncount = " +
         std::to_string(devices) + "\nmemory = \"" + memory +
         "\"\ndeclared = { matmul = \"10 GFLOP/s\", memory_bandwidth = \"10 GB/s\" }\n";
}

struct HardClusters : ::testing::Test {
  /// The plan's report, of a plan that is proved.
  Json planned(const std::string& arguments) const {
    const Outcome plan = place.run("plan model.cpp " + arguments + " --json -o plan.json");
    EXPECT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(place.run("verify model.cpp plan.json").code, 0);
    return plan.code == 0 ? Json::parse(plan.out) : Json();
  }
  void refused(const std::string& arguments, int code, const std::vector<std::string>& words) const {
    const Outcome plan = place.run("plan model.cpp " + arguments);
    EXPECT_EQ(plan.code, code) << arguments << plan.out << plan.err;
    for (const std::string& word : words) EXPECT_THAT(plan.err, HasSubstr(word)) << arguments;
  }
  Workplace place;
};

TEST_F(HardClusters, OneDeviceTakesItAllOnAnyMesh) {
  place.write("one.toml", cluster(1, 1, "1 GiB"));
  for (const std::string options : {"", "--mesh-axes auto", "--mesh 1", "--mesh 1x1", "--ratio 1", "--time-limit 0"}) {
    const Json plan = planned("--cluster one.toml " + options);
    EXPECT_EQ(plan["devices"].size(), 1u) << options;
    EXPECT_EQ(plan["collectives"], Json::object()) << options;
  }
}

TEST_F(HardClusters, FourThousandDevicesAreMoreThanTheModelHasUseFor) {
  place.write("many.toml", cluster(512, 8, "1 GiB"));
  const Json plan = planned("--cluster many.toml");
  EXPECT_EQ(plan["devices"].size() + plan["left_out"].size(), 4096u);
  EXPECT_THAT(std::string(plan["left_out_because"]), HasSubstr("with all 4096 devices a step takes "));
}

TEST_F(HardClusters, DimensionsOfOneAndFewerSamplesThanDevices) {
  place.write("eight.toml", cluster(2, 4, "1 GiB"));
  for (const std::string batch : {"1", "2", "3"})
    EXPECT_GT(double(planned("--set batch=" + batch + " --cluster eight.toml --mesh-axes auto")["step_seconds"]), 0);
}

TEST_F(HardClusters, AModelLargerThanTheCluster) {
  place.write("small.toml", cluster(1, 2, "64 KiB"));
  refused("--set batch=30000 --cluster small.toml", 4,
          {"the memories of all 2 devices together are too small, whatever the plan", "expected: at least ",
           "of activations and gradients that are needed at the same time", "found:    128 KiB in all"});
}

/// Batches that are accumulated make another step of a loss that compares samples, and of statistics over the batch.
/// What is advised where memory is short leaves the model what it is, as turns do by their proof, or says that it is
/// smaller.
TEST_F(HardClusters, NoHintChangesTheModelInSilence) {
  const auto model = [](const std::string& loss) {
    return "#include \"hetsynth/hetsynth.h\"\nusing namespace hetsynth;\nvoid model() {\n"
           "int64_t batch = option(\"batch\", 64, \"\");\nauto [x, y] = synthetic_batch(batch, 16, 10);\n"
           "Tensor h = matmul(x, parameter(\"w\", {16, 64}, normal(0.1)));\nminimize(" +
           loss + ", SGD{});\n}\n";
  };
  const std::string classes = "parameter(\"o\", {64, 10}, normal(0.1))";
  const std::map<std::string, std::string> losses = {
      {"contrast.cpp",
       "cross_entropy(einsum(\"ac,bc->ab\", h, tanh(h)), reshape(positions({batch, 1}, 0), {batch})) + "
       "0.0 * mean(to_float(y))"},
      {"norm.cpp",
       "cross_entropy(matmul(relu(batchnorm(relu(batchnorm(h, parameter(\"g\", {64}, ones()), "
       "parameter(\"b\", {64}, zeros()))), parameter(\"g2\", {64}, ones()), parameter(\"b2\", {64}, "
       "zeros()))), " +
           classes + "), y)"},
      {"plain.cpp", "cross_entropy(matmul(relu(h), " + classes + "), y)"}};
  for (const auto& [name, loss] : losses) {
    place.write(name, model(loss));
    for (const std::string memory : {"64 KiB", "100 KiB", "200 KiB", "400 KiB", "1 MiB"}) {
      place.write("small.toml", cluster(1, 1, memory));
      const Outcome small = place.run("plan " + name + " --batch 2048 --cluster small.toml");
      if (small.code == 0) continue;
      EXPECT_THAT(small, Fails(4, AllOf(HasSubstr("[memory]"), HasSubstr("a smaller batch"))));
      EXPECT_THAT(small.err, AllOf(Not(HasSubstr("micro-batch")), Not(HasSubstr("accumulate")))) << name << memory;
      EXPECT_EQ(small.err.find("the step cannot be taken in turns") != std::string::npos, name != "plain.cpp")
          << name << memory << small.err;
    }
  }
  place.write("small.toml", cluster(1, 1, "200 KiB"));
  EXPECT_EQ(place.run("plan plain.cpp --batch 2048 --cluster small.toml").code, 0);
  EXPECT_THAT(place.run("plan plain.cpp --batch 2048 --turns 2 --cluster small.toml"),
              Fails(4, AllOf(HasSubstr(", with the step taken in 2 turns\n"),
                             HasSubstr("leave --turns out, so that their number is chosen, or give another: it stays "
                                       "the same step; or "))));
}

TEST_F(HardClusters, PinsThatContradict) {
  refused("--cluster c.toml --pin w1=replicated --pin \"w1=sharded(0)\" --ratio 1,1", 4,
          {"no plan keeps to these pins together", "found:    w1=replicated, w1=sharded(0)\n"});
  refused("--cluster c.toml --mesh 3", 2, {"a mesh holds every device of the cluster once", "a product of 3"});
  refused("--cluster c.toml --ratio 0,0", 2, {"a ratio has a share for every device"});
}

/// Stages that are asked for are not left out in silence.
TEST_F(HardClusters, StagesBesideWhatTheyExclude) {
  const std::string stages = "--cluster c.toml --stages 2 ";
  for (const std::string pins : {"--mesh 2", "--ratio 2,1", "--pin w1=replicated", "--forbid all_gather"})
    refused(stages + pins, 2,
            {"[stages] what a plan has to keep to is not known of pipelines", "no pins beside --stages",
             "--stages 2 with pins, a ratio, a mesh or forbidden instructions", "leave --stages out, or --pin"});
  for (const std::string turns : {"1", "2+1"})
    refused(stages + "--batch 12 --turns " + turns, 2,
            {"[stages] stages compute at the same time where turns overlap", "two turns or more, none of them apart",
             "--stages 2 with --turns " + turns, "give another number of turns, or leave --turns out"});
}

TEST_F(HardClusters, ATimeLimitOfZeroOnTwoAxes) {
  place.write("eight.toml", cluster(2, 4, "1 GiB"));
  const Json plan = planned("--set batch=30000 --cluster eight.toml --mesh-axes auto --time-limit 0");
  EXPECT_TRUE(plan["cut_short"]);
  bool passed_over = false;
  for (const Json& trial : plan["considered"])
    passed_over = passed_over || trial["outcome"] == "not tried: planning ended before";
  EXPECT_TRUE(passed_over);
}

/// On one core and on all, with more threads and with fewer, and with a limit that is not reached.
TEST_F(HardClusters, TheSameInputGivesTheSameBytes) {
  place.write("eight.toml", cluster(2, 4, "1 GiB"));
  const std::string command = "plan model.cpp --set batch=30000 --cluster eight.toml --mesh-axes auto -o ";
  ASSERT_EQ(place.run(command + "first.json").code, 0);
  ASSERT_EQ(place.run(command + "second.json", "env OMP_NUM_THREADS=7").code, 0);
  ASSERT_EQ(place.run(command + "third.json --time-limit 200", "taskset -c 0").code, 0);
  const std::string first = place.read("first.json");
  EXPECT_GT(first.size(), 1000u);
  EXPECT_EQ(place.read("second.json"), first);
  EXPECT_EQ(place.read("third.json"), first);
}

TEST_F(HardClusters, StagesBesideMicroBatchesAreToldWhatToDo) {
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml --accumulate 2 --stages 2"),
              Fails(4, AllOf(HasSubstr("[stages] 2 stages compute at the same time in different turns of one batch"),
                             HasSubstr("found:    micro-batches of 12 samples (--accumulate)"),
                             HasSubstr("leave --accumulate out"), HasSubstr("(--batch 24)"))));
}

}  // namespace
}  // namespace hetsynth::testing
