// Models whose inputs have names of their own: trained, resumed, validated and evaluated by the commands, from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A tag for each of four words, of which some are padding.
const char* const tagger = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t batch = option("batch", 8, "sentences per step");
  Tensor words = input("words", {batch, 4}, i32, {.classes = 20});
  Tensor mask = input("mask", {batch, 4}, f32, {.lowest = 0, .highest = 1});
  Tensor tags = input("tags", {batch, 4}, i32, {.classes = 3, .ignored = -100});
  Tensor x = embedding(parameter("table", {20, 8}, normal(0.5)), words) * reshape(mask, {batch, 4, 1});
  Tensor logits = einsum("btc,ck->btk", x, parameter("w", {8, 3}, normal(0.5)));
  minimize(cross_entropy(logits, tags, {.ignored_label = -100}), SGD{.learning_rate = 0.5});
}
)";

/// Sentence `s`: words, mask and tags as lists.
std::string sentence(int s, const std::string& separator, const char* open, const char* close) {
  std::string words = open, mask = open, tags = open;
  for (int i = 0; i < 4; ++i) {
    const bool own = i < 2 + s % 3;
    const int word = own ? (3 * s + 5 * i) % 20 : 0;
    const std::string next = i < 3 ? "," : "";
    words += std::to_string(word) + next;
    mask += (own ? "1" : "0") + next;
    tags += std::to_string(own ? word % 3 : -100) + next;
  }
  if (separator == ",") return words + separator + mask + separator + tags;
  return "{\"words\":" + words + close + ",\"mask\":" + mask + close + ",\"tags\":" + tags + close + "}";
}

/// "0.8123", from what a run says of a step.
std::string loss_of_step(const std::string& out, const std::string& step) {
  const std::string before = "step " + step + "  loss ";
  const size_t at = out.rfind(before);
  return at == std::string::npos ? "no " + before + "in: " + out : out.substr(at + before.size(), 6);
}

class InputsCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("tagger.cpp", tagger);
    std::string lines, valid, table;
    for (const std::string name : {"words", "mask", "tags"})
      for (int i = 0; i < 4; ++i) table += (table.empty() ? "" : ",") + name + "." + std::to_string(i);
    table += "\n";
    for (int s = 0; s < 37; ++s) {
      lines += sentence(s, "", "[", "]") + "\n";
      table += sentence(s, ",", "", "") + "\n";
      if (s % 2) valid += sentence(s + 100, "", "[", "]") + "\n";
    }
    place.write("train.jsonl", lines);
    place.write("valid.jsonl", valid);
    std::filesystem::create_directory(place.folder() / "table");
    place.write("table/train.csv", table);
  }
  Outcome run(const std::string& options, const std::string& launcher = "") const {
    return place.run("run tagger.cpp --cluster c.toml --sample 0 " + options, launcher);
  }
  const Workplace place;
};

/// A run may be continued with the same samples in a file of another format: it repeats none and leaves none out.
TEST_F(InputsCommand, GoOnWithTheSameSamplesOfAnotherFormat) {
  const Outcome whole = run("--data train.jsonl --steps 12");
  ASSERT_EQ(run("--data table --steps 5 --checkpoint half.st").code, 0);
  const Outcome rest = run("--data table --steps 7 --resume half.st --checkpoint rest.st");
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(loss_of_step(rest.out, "11/11"), loss_of_step(whole.out, "11/11"));
  EXPECT_THAT(place.run("checkpoint rest.st").out, AllOf(HasSubstr("96 seen"), HasSubstr("37 samples")));
}

TEST_F(InputsCommand, TrainInThreeProcessesAsInOne) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  std::string cluster =
      "name = \"slow\"\nbetween = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n[[host]]\n"
      "inside = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n";
  for (const char* speed : {"0.003", "0.006", "0.002"})
    cluster += "[[host.device]]\nname = \"d" + std::string(speed).substr(4) +
               "\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\ndeclared = { matmul = \"" + speed +
               " GFLOP/s\", memory_bandwidth = \"0.002 GB/s\" }\n";
  place.write("c.toml", cluster);
  const Outcome one = run("--data train.jsonl --steps 8 --checkpoint one.st");
  ASSERT_EQ(one.code, 0) << one.err;
  const Outcome three = run("--data train.jsonl --steps 8 --checkpoint three.st", mpirun(3));
  ASSERT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(place.read("three.st"), place.read("one.st"));
}

TEST_F(InputsCommand, AreValidatedAndEvaluated) {
  const Outcome ran = run("--data train.jsonl --steps 20 --checkpoint a.st --valid valid.jsonl --valid-every 10");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("jsonl valid.jsonl, 18 samples"), HasSubstr("validation after 20 steps: loss")));
  const std::string loss = ran.out.substr(ran.out.find("validation after 20 steps: loss ") + 32, 6);
  const Outcome evaluated = place.run("evaluate tagger.cpp a.st --cluster c.toml --data valid.jsonl");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_THAT(evaluated.out, HasSubstr("loss " + loss));
}

TEST_F(InputsCommand, TrainOnSamplesThatAreMadeUpAndInTurns) {
  EXPECT_THAT(run("--steps 3").out, HasSubstr("data: synthetic samples"));
  const Outcome whole = run("--data train.jsonl --steps 4");
  const Outcome turns = run("--data train.jsonl --steps 4 --turns 2");
  ASSERT_EQ(turns.code, 0) << turns.err;
  EXPECT_EQ(loss_of_step(turns.out, "3/3"), loss_of_step(whole.out, "3/3"));
}

TEST_F(InputsCommand, SayWhatDataDoNotFitBeforePlanning) {
  place.write("lacking.jsonl", "{\"words\":[1,2,3,4],\"mask\":[1,1,1,1],\"tag\":[0,0,0,0]}\n");
  const Outcome lacking = run("--data lacking.jsonl --steps 3");
  EXPECT_THAT(lacking, Fails(3, AllOf(HasSubstr("lacking.jsonl: error: [data] line 1 has no member for input \"tags\""),
                                      HasSubstr("did you mean \"tag\"?"))));
  EXPECT_THAT(lacking.out, Not(HasSubstr("plan for")));
  EXPECT_THAT(run("--data no.jsonl --steps 3"), Fails(3, HasSubstr("no such file or folder")));
}

TEST_F(InputsCommand, SayWhichSampleAStepCouldNotTake) {
  std::string lines;
  for (int s = 0; s < 16; ++s) lines += sentence(s, "", "[", "]") + "\n";
  place.write("wrong.jsonl", lines + "{\"words\":[1,2,3,4],\"mask\":[1,1,1,1],\"tags\":[0,0,3,0]}\n");
  EXPECT_THAT(run("--data wrong.jsonl --steps 3"),
              Fails(3, AllOf(HasSubstr("wrong.jsonl: error: [data] sample 16 has a value that input tags cannot take"),
                             HasSubstr("0 to 2, or -100"), HasSubstr("3 at line 17, tags[2]"),
                             HasSubstr("tagger.cpp:8:"), HasSubstr("input tags needs it in step"))));
}

}  // namespace
}  // namespace hetsynth::testing
