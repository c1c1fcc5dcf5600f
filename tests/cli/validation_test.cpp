// hetsynth run --valid and hetsynth evaluate: the loss on other data, without dropout, beside training and afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The next byte from four before it, with dropout.
const char* const text_model = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;

void model() {
  int64_t batch = option("batch", 8, "samples per step");
  auto [bytes, next] = text_next_byte(batch, 4);
  Tensor x = reshape(embedding(parameter("table", {256, 6}, normal(0.3)), bytes), {batch, 24});
  Tensor h = dropout(relu(matmul(x, parameter("w1", {24, 16}, normal(0.3)))), 0.3);
  minimize(cross_entropy(matmul(h, parameter("w2", {16, 256}, normal(0.3))), next), SGD{.learning_rate = 0.2});
}
)";

class ValidationCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("text.cpp", text_model);
    std::string train, valid;
    for (int i = 0; i < 600; ++i) train += char('a' + i % 7), valid += char('a' + i % 5);
    place.write("train.txt", train);
    place.write("valid.txt", valid.substr(0, 289));  // 72 windows of four, and the byte after the last
  }
  Outcome run(const std::string& options) const {
    return place.run("run text.cpp --cluster c.toml --sample 0 --data train.txt " + options);
  }
  /// What the lines "validation after N steps: loss X" say, in order.
  static std::vector<double> losses(const std::string& text) {
    std::vector<double> out;
    const std::regex line(R"(validation after \d+ steps: loss ([0-9.]+))");
    for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at)
      out.push_back(std::stod((*at)[1]));
    return out;
  }
  const Workplace place;
};

TEST_F(ValidationCommand, MeasuresTheLossThatEvaluateFindsInTheCheckpoint) {
  const Outcome ran = run("--steps 25 --valid valid.txt --valid-every 10 --checkpoint a.st --keep best --log-json log");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("validation: 1 device"), HasSubstr("a batch predicted"),
                             HasSubstr("validation: 9 batches of text valid.txt"), HasSubstr("72 samples"),
                             HasSubstr("validation after 10 steps"), HasSubstr("validation after 25 steps")));
  const std::vector<double> found = losses(ran.out);
  ASSERT_EQ(found.size(), 3u);
  const auto evaluated = [&](const std::string& options) {
    const Outcome out = place.run("evaluate text.cpp a.st --data valid.txt --json " + options);
    EXPECT_EQ(out.code, 0) << out.err;
    return nlohmann::json::parse(out.out);
  };
  const nlohmann::json here = evaluated("--cluster c.toml");
  EXPECT_NEAR(here.at("loss"), found.back(), 1e-4) << "which is printed to four digits";
  EXPECT_EQ(here.at("samples"), 72);
  EXPECT_EQ(here.at("next_step"), 25);
  // Other devices, and another batch, which leaves no sample out.
  EXPECT_NEAR(evaluated("--batch 36").at("loss"), here.at("loss"), 1e-4);
  EXPECT_EQ(evaluated("--batches 2").at("samples"), 16);
  EXPECT_THAT(place.run("evaluate text.cpp a.st --data valid.txt").out,
              AllOf(HasSubstr("evaluation: "), HasSubstr("after 25 steps, over 72 samples (9 batches) of text")));
  EXPECT_THAT(place.run("checkpoint a.st").out, HasSubstr("validation loss"));
  EXPECT_TRUE(place.exists("a.st.best"));
  int events = 0;
  std::istringstream log(place.read("log"));
  for (std::string line; std::getline(log, line);)
    events += nlohmann::json::parse(line).value("event", "") == "validation";
  EXPECT_EQ(events, 3);
  EXPECT_THAT(place.run("history log").out,
              AllOf(HasSubstr("after step      9  validation loss "), HasSubstr("the lowest so far (9 batches in "),
                    HasSubstr("kept as a.st.best"), HasSubstr("the lowest of 3 validation losses: "),
                    HasSubstr("the last one a.st after step 24")));
}

TEST_F(ValidationCommand, ChangesNothingOfTraining) {
  ASSERT_EQ(run("--steps 8 --checkpoint with.st --valid valid.txt --valid-every 3").code, 0);
  ASSERT_EQ(run("--steps 8 --checkpoint without.st").code, 0);
  // Behind eight bytes with the length of the header, and the header.
  const auto tensors = [&](const std::string& file) {
    const std::string all = place.read(file);
    uint64_t header = 0;
    std::memcpy(&header, all.data(), 8);
    return all.substr(8 + header);
  };
  EXPECT_GT(tensors("with.st").size(), 24000u);
  EXPECT_TRUE(tensors("with.st") == tensors("without.st"));
}

TEST_F(ValidationCommand, EndsTrainingThatGainsNothing) {
  // What is trained on other text becomes worse at this one sooner or later.
  const Outcome ran =
      run("--steps 4000 --valid valid.txt --valid-every 40 --stop-after 2 --checkpoint a.st --keep best");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ended for want of a gain"), HasSubstr("no gain since")));
  const double best =
      nlohmann::json::parse(place.run("evaluate text.cpp a.st.best --data valid.txt --json").out).at("loss");
  for (const double loss : losses(ran.out)) EXPECT_LE(best, loss + 1e-4);
}

TEST_F(ValidationCommand, TakesSamplesThatAreMadeUp) {
  const Outcome ran = place.run("run model.cpp --cluster c.toml --steps 30 --valid synthetic --sample 0");
  ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("16 batches of synthetic samples, 192 samples"),
                             HasSubstr("validation after 30 steps: loss")));
}

TEST_F(ValidationCommand, RunsInSeveralProcesses) {
  if (std::system("command -v mpirun > /dev/null") != 0) GTEST_SKIP() << "there is no mpirun here";
  const std::string command =
      "run text.cpp --data train.txt --sample 0 --steps 6 --valid valid.txt --valid-every 3 --mesh 2";
  const Outcome alone = place.run(command + " --cluster c.toml"),
                two = place.run(command + " --cluster c.toml", mpirun(2));
  ASSERT_EQ(two.code, 0) << two.out << two.err;
  EXPECT_EQ(losses(two.out), losses(alone.out));
  EXPECT_EQ(losses(two.out).size(), 2u);
}

TEST_F(ValidationCommand, RefusesWhatCannotBeMeasuredBeforePlanning) {
  const auto refused = [&](const std::string& options, int code, const auto& words) {
    const Outcome out = run(options);
    EXPECT_THAT(out, Fails(code, words)) << options;
    EXPECT_THAT(out.out, Not(HasSubstr("plan for"))) << options;
  };
  place.write("short.txt", "short text");
  refused("--valid absent.txt", 3, AllOf(HasSubstr("absent.txt"), HasSubstr("name existing data with --valid")));
  place.write("empty.txt", "");
  refused("--valid empty.txt", 3,
          AllOf(HasSubstr("empty.txt: error: [data] the file is empty"), HasSubstr("with --valid")));
  refused("--valid short.txt", 3, AllOf(HasSubstr("less samples than one batch"), HasSubstr("8 samples at least")));
  refused("--keep all", 2, HasSubstr("last, best, or how many of the last"));
  refused("--keep best", 2, HasSubstr("--keep needs --checkpoint"));
  refused("--keep best --checkpoint a.st", 2, HasSubstr("--valid"));
  refused("--stop-after 3", 2, HasSubstr("--valid"));
  refused("--valid-every 3", 2, HasSubstr("--valid"));
  ASSERT_EQ(run("--steps 2 --checkpoint a.st").code, 0);
  EXPECT_THAT(place.run("evaluate model.cpp a.st"), Fails(3, HasSubstr("tensor w1 has another type")));
  EXPECT_THAT(place.run("evaluate text.cpp absent.st"), Fails(3, HasSubstr("absent.st")));
  EXPECT_THAT(place.run("evaluate text.cpp a.st --accumulate 2"), Fails(2, HasSubstr("leave --accumulate out")));
  EXPECT_THAT(place.run("evaluate text.cpp a.st --turns 2"), Fails(2, HasSubstr("leave --turns out")));
  EXPECT_THAT(place.run("evaluate text.cpp a.st --data short.txt"), Fails(3, HasSubstr("less samples than one batch")));
}

}  // namespace
}  // namespace hetsynth::testing
