// run --balance lossy: says so wherever it speaks, trains alike in one process and in several, and refuses what it
// cannot do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* layers = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  int64_t batch = option("batch", 16, "samples per step");
  auto [x, labels] = synthetic_batch(batch, 24, 4);
  Tensor h = relu(matmul(x, parameter("w1", {24, 32}, normal(0.2))));
  h = relu(matmul(h, parameter("w2", {32, 32}, normal(0.2))));
  minimize(cross_entropy(matmul(h, parameter("w3", {32, 4}, normal(0.2))), labels), Adam{.learning_rate = 0.01});
}
)";

/// Slow devices with a fast link, so that a plan uses both.
std::string two_devices(const std::string& kind_of_b = "cpu") {
  const auto device = [](const std::string& name, const std::string& kind) {
    return "[[host.device]]\nname = \"" + name + "\"\n" +
           (kind == "cpu" ? "kind = \"cpu\"\nmemory = \"1 GiB\"\ndeclared = { matmul = \"0.03 GFLOP/s\", "
                            "memory_bandwidth = \"0.01 GB/s\" }\n"
                          : "model = \"" + kind + "\"\n");
  };
  return "name = \"two\"\n[[host]]\ninside = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n" + device("a", "cpu") +
         device("b", kind_of_b);
}

/// A device leaves something out from its 12th step on.
class Lossy : public ::testing::Test {
 protected:
  Lossy() {
    place.write("model.cpp", layers);
    place.write("c.toml", two_devices());
  }
  const Workplace place;
  const std::string run = "run model.cpp --cluster c.toml --steps 23 --seed 4 ";
  const std::string leaves_out = "--balance lossy --leave-out b=0.25 ";
};

TEST_F(Lossy, SaysSoWhereverItSpeaks) {
  const Outcome ran = place.run(run + leaves_out + "--checkpoint a.st --log-json a.json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("lossy: left out, as --leave-out says: b 25 %"), HasSubstr("  lossy b 2"),
                             HasSubstr("; lossy: columns were left out in 12 steps, in all the work of 1.")));
  EXPECT_THAT(place.read("a.json"), HasSubstr("\"left_out\":{\"a\":0.0,\"b\":0.2"));
  const Outcome told = place.run("checkpoint a.st");
  EXPECT_THAT(told.out, HasSubstr("lossy      slow devices left columns of their products out in 12 steps"));
  EXPECT_THAT(place.run("checkpoint a.st --json").out, HasSubstr("\"lossy\": {\n    \"steps\": 12,"));
  EXPECT_THAT(place.run("history a.json").out,
              HasSubstr("lossy: columns of products were left out in 12 steps, up to 2"));
  EXPECT_THAT(place.run(run + leaves_out + "--json").out, HasSubstr("\"lossy\": {\n    \"steps\": 12,"));
  // A run that goes on without loss does not forget what was.
  const Outcome on = place.run("run model.cpp --cluster c.toml --steps 3 --resume a.st --checkpoint b.st");
  ASSERT_EQ(on.code, 0) << on.err;
  EXPECT_THAT(on.out, Not(HasSubstr("lossy")));
  EXPECT_THAT(place.run("checkpoint b.st").out, HasSubstr("out in 12 steps"));
  const Outcome more =
      place.run("run model.cpp --cluster c.toml --steps 14 --resume b.st --checkpoint b.st " + leaves_out);
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_THAT(place.run("checkpoint b.st").out, HasSubstr("out in 15 steps"));
}

TEST_F(Lossy, IsOffUnlessItIsAskedFor) {
  ASSERT_EQ(place.run(run + "--checkpoint plain.st").code, 0);
  EXPECT_THAT(place.run("checkpoint plain.st").out, Not(HasSubstr("lossy")));
  EXPECT_THAT(place.run("checkpoint plain.st --json").out, Not(HasSubstr("lossy")));
}

TEST_F(Lossy, TrainsInTurnsInStagesAndWithHalves) {
  for (const char* how : {"--accumulate 2", "--turns 2", "--stages 2", "--precision bf16"}) {
    const Outcome ran = place.run(run + leaves_out + how);
    ASSERT_EQ(ran.code, 0) << how << "\n" << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("columns were left out in 12 steps")) << how;
  }
}

TEST_F(Lossy, SeveralProcessesTrainAsOneDoes) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  ASSERT_EQ(place.run(run + leaves_out + "--checkpoint one.st").code, 0);
  const Outcome ran = place.run(run + leaves_out + "--checkpoint two.st", mpirun(2));
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("; lossy: columns were left out in 12 steps"));
  EXPECT_EQ(place.read("one.st"), place.read("two.st"));
  const Outcome balanced = place.run("run model.cpp --cluster c.toml --steps 40 --balance lossy", mpirun(2));
  EXPECT_EQ(balanced.code, 0) << balanced.err;
}

TEST_F(Lossy, OptionsThatMeanNothingAreRefused) {
  const auto refused = [&](const std::string& words, const auto& message) {
    EXPECT_THAT(place.run(run + words), Fails(2, message)) << words;
  };
  refused("--leave-out b=0.25", AllOf(HasSubstr("--leave-out makes training lossy, which has to be asked for"),
                                      HasSubstr("expected: --balance lossy beside it"),
                                      HasSubstr("give --balance lossy too, or leave --leave-out out")));
  refused("--balance shares --leave-out b=0.25", HasSubstr("--balance lossy beside it"));
  for (const char* part : {"b", "b=", "b=0", "b=-0.5", "b=0.95", "b=nan", "b=0.5x", "=0.5"})
    refused(std::string("--balance lossy --leave-out ") + part,
            AllOf(HasSubstr("no part of a device's columns"), HasSubstr("a part above 0 and up to 0.9"),
                  HasSubstr(std::string("found:    ") + part), HasSubstr("--leave-out slow=0.25")));
  refused("--balance lossy --leave-out b=0.2 --leave-out b=0.3",
          AllOf(HasSubstr("a device leaves out one part of its columns"), HasSubstr("name it once")));
  refused("--balance lossy --leave-out c=0.2", AllOf(HasSubstr("the plan does not run on this device"),
                                                     HasSubstr("expected: one of a, b"), HasSubstr("found:    c")));
  refused("--balance lossy --trace t.json", HasSubstr("--balance excludes --trace"));
}

TEST_F(Lossy, WhatCannotLeaveColumnsOutIsRefused) {
  place.write("gpu.toml", two_devices("V100"));
  EXPECT_THAT(place.run("run model.cpp --cluster gpu.toml --mesh 2 --steps 1 --balance lossy"),
              Fails(2, AllOf(HasSubstr("gpu.toml"), HasSubstr("GPUs cannot leave columns out of their products"),
                             HasSubstr("device b is a GPU"), HasSubstr("--balance shares, or --balance plan"))));
  place.write("thin.cpp", R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [x, labels] = synthetic_batch(8, 4, 4);
  minimize(cross_entropy(x * parameter("w", {4}, ones()), labels), SGD{});
}
)");
  EXPECT_THAT(
      place.run("run thin.cpp --cluster c.toml --steps 1 --balance lossy"),
      Fails(2, AllOf(HasSubstr("thin.cpp"), HasSubstr("the model has nothing that a slow device could leave out"),
                     HasSubstr("matrix products of activations with parameters"))));
}

}  // namespace
}  // namespace hetsynth::testing
