// Models whose inputs have names of their own: trained, resumed, validated and evaluated by the commands, from files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

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

/// Three devices of different speeds.
std::string three_devices() {
  std::string cluster =
      "name = \"slow\"\nbetween = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n[[host]]\n"
      "inside = { bandwidth = \"5 GB/s\", latency = \"0.02 us\" }\n";
  for (const char* speed : {"0.003", "0.006", "0.002"})
    cluster += "[[host.device]]\nname = \"d" + std::string(speed).substr(4) +
               "\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\ndeclared = { matmul = \"" + speed +
               " GFLOP/s\", memory_bandwidth = \"0.002 GB/s\" }\n";
  return cluster;
}

TEST_F(InputsCommand, TrainInThreeProcessesAsInOne) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  place.write("c.toml", three_devices());
  const Outcome one = run("--data train.jsonl --steps 8 --checkpoint one.st");
  ASSERT_EQ(one.code, 0) << one.err;
  const Outcome three = run("--data train.jsonl --steps 8 --checkpoint three.st", mpirun(3));
  ASSERT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(place.read("three.st"), place.read("one.st"));
}

/// Parts that end within a batch, and one without samples, train to the bits of the joined file: on one device, and on
/// three of different speeds. A run on the file goes on with the parts.
TEST_F(InputsCommand, TrainOnPartsAsOnTheWhole) {
  std::filesystem::create_directory(place.folder() / "parts");
  const std::string lines = place.read("train.jsonl");
  size_t begin = 0;
  for (int part = 0; part < 4; ++part) {
    size_t end = begin;
    for (int line = 0; line < std::vector{5, 0, 21, 11}[size_t(part)]; ++line) end = lines.find('\n', end) + 1;
    place.write("parts/train-0000" + std::to_string(part) + "-of-00004.jsonl", lines.substr(begin, end - begin));
    begin = end;
  }
  ASSERT_EQ(begin, lines.size());
  const auto parameters = [&](const std::string& file) {  // what a checkpoint holds behind its header
    const std::string bytes = place.read(file);
    return bytes.substr(bytes.find_first_not_of(' ', bytes.find("}}") + 2));
  };
  const std::string one_device =
      "name = \"one\"\n[[host]]\n[[host.device]]\nname = \"d\"\nkind = \"cpu\"\nmemory = \"1 GiB\"\n"
      "declared = { matmul = \"1 GFLOP/s\", memory_bandwidth = \"1 GB/s\" }\n";
  for (const std::string& cluster : {one_device, three_devices()}) {
    place.write("c.toml", cluster);
    const Outcome whole = run("--data train.jsonl --steps 12 --checkpoint whole.st");
    ASSERT_EQ(whole.code, 0) << whole.err;
    for (const std::string data : {"parts", "'parts/train-*'"}) {
      const Outcome parts = run("--data " + data + " --steps 12 --checkpoint parts.st");
      ASSERT_EQ(parts.code, 0) << parts.err;
      EXPECT_THAT(parts.out, HasSubstr("4 files, 37 samples"));
      EXPECT_EQ(loss_of_step(parts.out, "11/11"), loss_of_step(whole.out, "11/11"));
      EXPECT_TRUE(parameters("parts.st") == parameters("whole.st")) << data;
    }
    ASSERT_EQ(run("--data train.jsonl --steps 5 --checkpoint half.st").code, 0);
    const Outcome rest = run("--data parts --steps 7 --resume half.st --checkpoint rest.st");
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_TRUE(parameters("rest.st") == parameters("whole.st"));
  }
  std::filesystem::remove(place.folder() / "parts/train-00002-of-00004.jsonl");
  EXPECT_THAT(run("--data parts --steps 1"), Fails(3, HasSubstr("without \"train-00002-of-00004.jsonl\"")));
}

/// The norm of gradients that is asked for stands on the progress line and in the log, on any devices the same, and
/// changes no loss. A plan brings it along.
TEST_F(InputsCommand, TellTheNormOfGradients) {
  const Outcome silent = run("--data train.jsonl --steps 6");
  EXPECT_THAT(silent.out, Not(HasSubstr("gradient_norm")));
  std::vector<double> norms;
  const std::string two_devices = place.read("c.toml");
  for (const std::string& cluster : {two_devices, three_devices()}) {
    place.write("c.toml", cluster);
    const Outcome told = run("--data train.jsonl --steps 6 --gradient-norm --log-json log.json");
    ASSERT_EQ(told.code, 0) << told.err;
    EXPECT_EQ(loss_of_step(told.out, "5/5"), loss_of_step(silent.out, "5/5"));
    EXPECT_THAT(told.out, HasSubstr("gradient_norm "));
    std::istringstream lines(place.read("log.json"));
    for (std::string line; std::getline(lines, line);)
      norms.push_back(nlohmann::json::parse(line)["metrics"]["gradient_norm"]);
    std::filesystem::remove(place.folder() / "log.json");
  }
  ASSERT_EQ(norms.size(), 12u);
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(norms[i], norms[i + 6], 1e-5 * norms[i]) << "step " << i;
  EXPECT_GT(norms[0], 0);
  ASSERT_EQ(place.run("plan tagger.cpp --cluster c.toml --gradient-norm -o plan.json").code, 0);
  EXPECT_THAT(run("--data train.jsonl --steps 2 --plan plan.json").out, HasSubstr("gradient_norm "));
  EXPECT_THAT(run("--steps 1 --set gradient_norm=2"), Fails(2, HasSubstr("this setting has one value")));
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
