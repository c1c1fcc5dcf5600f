// Pins on the command line, and planning that is cut short.
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "command.h"
#include "dsl/base/file.h"
#include "hetsynth/build_paths.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct PlanCommand : ::testing::Test {
  PlanCommand() {
    place.write("model.cpp", small_model);
    place.write("cluster.toml", small_cluster);
  }
  Workplace place;
};

TEST_F(PlanCommand, KeepsToPinsFromCommandLineAndFile) {
  place.write("pins.toml", "ratio = [1, 3]\n");
  const std::string command = "plan model.cpp --cluster cluster.toml --set batch=12000 --pins pins.toml -o plan.json";
  EXPECT_EQ(place.run(command).code, 0);
  EXPECT_THAT(place.read("plan.json"), HasSubstr("reduce_scatter"));
  const Outcome plan = place.run(command + " --forbid reduce_scatter");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("over all shares: lower bound"));
  EXPECT_THAT(place.read("plan.json"), HasSubstr("shares_bound_seconds"));
  EXPECT_THAT(place.read("plan.json"), Not(HasSubstr("reduce_scatter")));
  EXPECT_EQ(place.run("verify model.cpp plan.json").code, 0);
}

TEST_F(PlanCommand, ForbidsSeveralInstructionsInOneOptionAsInMany) {
  const std::string plan = "plan model.cpp --cluster cluster.toml --set batch=12000 ";
  EXPECT_EQ(place.run(plan + "-o free.json").code, 0);
  EXPECT_EQ(place.run(plan + "--forbid all_reduce,reduce_scatter -o list.json").code, 0);
  EXPECT_EQ(place.run(plan + "--forbid all_reduce --forbid reduce_scatter -o many.json").code, 0);
  EXPECT_EQ(place.read("list.json"), place.read("many.json"));
  EXPECT_THAT(place.read("free.json"), HasSubstr("all_reduce"));
  EXPECT_THAT(place.read("list.json"), AllOf(Not(HasSubstr("all_reduce")), Not(HasSubstr("reduce_scatter"))));
  EXPECT_THAT(place.run(plan + "--forbid all_reduce,alltoall"), Fails(2, HasSubstr("did you mean \"all_to_all\"?")));
}

TEST_F(PlanCommand, NamesWhatIsWrongWithAPin) {
  EXPECT_THAT(place.run("plan model.cpp --cluster cluster.toml --pin nothing=replicated"),
              Fails(2, HasSubstr("the model has no tensor of this name")));
  EXPECT_THAT(place.run("plan model.cpp --cluster cluster.toml --forbid alltoall"),
              Fails(2, HasSubstr("did you mean \"all_to_all\"?")));
  EXPECT_THAT(place.run("plan model.cpp --cluster cluster.toml --mesh 3x1"),
              Fails(2, HasSubstr("sizes whose product is 2")));
}

TEST_F(PlanCommand, ShortMemoryMakesValuesTwiceUnlessThatIsForbidden) {
  place.write("deep.cpp", R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [x, labels] = synthetic_batch(4000, 6, 3);
  Tensor h = matmul(x, parameter("w0", {6, 32}, normal(0.3)));
  for (int i = 1; i < 5; ++i) h = matmul(gelu(h), parameter("w" + std::to_string(i), {32, 32}, normal(0.3)));
  minimize(cross_entropy(matmul(h, parameter("out", {32, 3}, normal(0.3))), labels), SGD{.learning_rate = 0.1});
}
)");
  place.write("tight.toml", everywhere(small_cluster, "1 GiB", "1600 KiB"));
  const std::string command = "plan deep.cpp --cluster tight.toml --turns 1 -o plan.json";
  const Outcome twice = place.run(command);
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_THAT(twice.out, HasSubstr("made again"));
  EXPECT_EQ(place.run("verify deep.cpp plan.json").code, 0);
  EXPECT_THAT(place.run("explain deep.cpp plan.json --cluster tight.toml").out, HasSubstr("of these, made again"));
  const Outcome once = place.run(command + " --forbid recompute");
  EXPECT_TRUE(once.code == 4 || once.out.find("made again") == std::string::npos) << once.out;
}

/// The number of turns is chosen where memory is short; the plan file remembers it, and every command follows.
TEST_F(PlanCommand, TakesAStepInTurnsWhereMemoryIsShort) {
  const std::string cluster = read_file(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml", "the cluster", 1 << 20);
  place.write("ample.toml", cluster);
  place.write("tight.toml", everywhere(cluster, "2 GiB", "16 MiB"));
  const std::string gpt = "'" HETSYNTH_SOURCE_DIR "/examples/gpt.cpp' ", plan = "plan " + gpt + "--batch 16 --cluster ";
  const auto step = [](const Outcome& outcome) {
    return double(nlohmann::json::parse(outcome.out).at("step_seconds"));
  };
  const Outcome tight = place.run(plan + "tight.toml -o plan.json");
  EXPECT_THAT(tight.out, AllOf(HasSubstr("taken in "), HasSubstr("(all at once: ")));
  EXPECT_THAT(place.run(plan + "ample.toml").out, Not(HasSubstr("taken in ")));
  EXPECT_LT(step(place.run(plan + "tight.toml --json")), step(place.run(plan + "tight.toml --turns 1 --json")));
  const Outcome verified = place.run("verify " + gpt + "plan.json");
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("turns are proved to be the step of the whole batch"));
  EXPECT_THAT(place.run("inspect " + gpt + "plan.json").out, HasSubstr("for (long turn = 0; turn < "));
  EXPECT_THAT(place.run(plan + "tight.toml --turns 5").err, HasSubstr("one of 2, 4, 8, 16 turns"));
  for (const std::string wrong : {"0", "3+2", "--json"})
    EXPECT_THAT(place.run(plan + "tight.toml --turns " + wrong).err,
                HasSubstr("expected a number from 1, or such a number and \"+1\", found " + wrong));
}

/// Though a plan at even shares, which takes half as long again, fits without any search within memory.
TEST_F(PlanCommand, ALittleTooLittleMemoryCostsLittle) {
  const std::string cluster = read_file(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml", "the cluster", 1 << 20);
  const auto step = [&](const std::string& memory) {
    place.write("tight.toml", everywhere(cluster, "2 GiB", memory));
    const Outcome plan =
        place.run("plan '" HETSYNTH_SOURCE_DIR "/examples/gpt.cpp' --cluster tight.toml --forbid recompute --json");
    EXPECT_EQ(plan.code, 0) << memory << plan.err;
    return double(nlohmann::json::parse(plan.out).at("step_seconds"));
  };
  const double ample = step("2048 MiB");
  for (const char* memory : {"26 MiB", "24 MiB"}) EXPECT_LE(step(memory), 1.05 * ample) << memory;
  EXPECT_LE(step("22 MiB"), 1.1 * ample);
}

/// Parameters that are gathered for the forward pass and again for the backward pass are not computed twice.
TEST_F(PlanCommand, WhatIsGatheredTwiceIsToldApartFromWhatIsComputedTwice) {
  const std::string cluster = read_file(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml", "the cluster", 1 << 20);
  place.write("tight.toml", everywhere(cluster, "2 GiB", "20 MiB"));
  const std::string command =
      "plan '" HETSYNTH_SOURCE_DIR "/examples/gpt.cpp' --cluster tight.toml --turns 1 -o plan.json";
  const Outcome twice = place.run(command), once = place.run(command + " --forbid recompute");
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_THAT(twice.out, HasSubstr("made again"));
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_THAT(once.out, AllOf(HasSubstr("converted again"), Not(HasSubstr("made again"))));
}

TEST_F(PlanCommand, ATimeLimitOfZeroGivesAPlan) {
  const Outcome plan = place.run("plan model.cpp --cluster cluster.toml --time-limit 0 -o plan.json");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("the search for a faster plan was ended early"));
  EXPECT_EQ(place.run("verify model.cpp plan.json").code, 0);
}

/// The dump shows that planning has begun.
TEST_F(PlanCommand, CtrlCKeepsTheBestPlanSoFar) {
  const std::string root = HETSYNTH_SOURCE_DIR;
  const std::string command = "cd '" + place.folder().string() +
                              "' || exit 99\n'" HETSYNTH_BINARY_DIR "/hetsynth' plan " + root +
                              "/examples/gpt2.cpp --mesh-axes 2 --cluster " + root +
                              "/examples/clusters/v100-p100.toml --dump-after=differentiate -o plan.json"
                              " > log.txt 2> err.txt &\n"
                              "p=$!\nfor i in $(seq 600); do test -s log.txt && break; sleep 0.1; done\n"
                              "sleep 0.2; kill -INT $p; wait $p";
  EXPECT_EQ(std::system(command.c_str()), 0) << place.read("err.txt");
  EXPECT_THAT(place.read("err.txt"), HasSubstr("planning was interrupted; the best plan so far is taken"));
  EXPECT_TRUE(place.exists("plan.json"));
}

}  // namespace
}  // namespace hetsynth::testing
