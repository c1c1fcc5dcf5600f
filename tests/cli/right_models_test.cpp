// Models that are right, and that somebody found refused or wrong: from the command to the numbers it tells.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RightModels : public ::testing::Test {
 protected:
  /// A linear model w of three features and classes, with these lines before its optimizer.
  void write(const std::string& lines, const std::string& optimizer = "SGD{}") const {
    place.write("model.cpp",
                "#include \"hetsynth/hetsynth.h\"\nusing namespace hetsynth;\nvoid model() {\n"
                "  auto [x, y] = synthetic_batch(8, 3, 3);\n  Tensor w = parameter(\"w\", {3, 3}, normal(0.5));\n" +
                    lines + "\n  minimize(cross_entropy(matmul(x, w), y), " + optimizer + ");\n}\n");
  }
  Outcome run(const std::string& options = "") const {
    return place.run("run model.cpp --cluster c.toml --sample 0 --steps 3 " + options);
  }
  /// What the progress line tells of the metric q, step by step.
  std::vector<double> metric(const std::string& options = "") const {
    const Outcome ran = run(options);
    EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
    std::vector<double> out;
    const std::regex told("  q ([-0-9.e]+)");
    for (std::sregex_iterator at(ran.out.begin(), ran.out.end(), told), end; at != end; ++at)
      out.push_back(std::stod((*at)[1]));
    return out;
  }
  const Workplace place;
};

/// 1 + cos(pi) and 1 - beta are next to nothing, which constants of different precision make of anything.
TEST_F(RightModels, SchedulesThatEndAtZeroAndSlowMomentsTrain) {
  for (const char* optimizer : {"SGD", "Adam", "AdamW", "LAMB", "Adafactor"})
    for (const int steps : {2, 1000}) {
      write("", fmt::format("{}{{.learning_rate = 0.01, .schedule = cosine_schedule({})}}", optimizer, steps));
      EXPECT_EQ(run().code, 0) << optimizer << steps;
    }
  for (const char* optimizer : {"Adam{.beta2 = 0.999999}", "AdamW{.beta1 = 0.9999999}", "AdamW{.beta1 = 0.99999999}",
                                "LAMB{.beta2 = 0.99999999}"}) {
    write("", optimizer);
    EXPECT_EQ(run().code, 0) << optimizer;
  }
}

/// With one sample a turn the sum of a gradient over samples is that gradient, which was taken for the sum: right texts
/// of GPUs were refuted in stages, and without them not followed to their end.
TEST_F(RightModels, OneSampleATurnIsFollowedOnGpus) {
  place.write("two.toml",
              "[[host]]\nname = \"a\"\ninside = { bandwidth = \"12 GB/s\", latency = \"2 us\" }\n"
              "[[host.device]]\nname = \"g\"\nmodel = \"V100\"\ncount = 2\n");
  const std::string gpt = std::string(HETSYNTH_SOURCE_DIR) + "/examples/gpt.cpp";
  const std::string size = " --set layers=1 --set width=16 --set seq=8 --batch 4";
  for (const std::string options : {"--stages 2 --turns 4", "--without 'g[1]' --turns 4"}) {
    const Outcome plan = place.run("plan " + gpt + size + " --cluster two.toml " + options + " -o plan.json");
    ASSERT_EQ(plan.code, 0) << plan.err;
    const Outcome verified = place.run("verify " + gpt + " plan.json" + size + " --source");
    EXPECT_EQ(verified.code, 0) << options << verified.out << verified.err;
  }
}

/// What is minimised is told as it was before the update: 5, 4.9, 4.8.
TEST_F(RightModels, ALossThatIsAParameterIsWhatItWasInTheStep) {
  const std::string head =
      "#include \"hetsynth/hetsynth.h\"\nusing namespace hetsynth;\nvoid model() {\n"
      "  auto [x, y] = synthetic_batch(8, 3, 3);\n";
  for (const char* loss : {"parameter(\"a\", {}, constant_init(5))", "sum(parameter(\"a\", {1}, constant_init(5)))",
                           "reshape(parameter(\"a\", {1}, constant_init(5)), {})"}) {
    place.write("model.cpp", head + "  minimize(" + loss + ", SGD{.learning_rate = 0.1, .momentum = 0});\n}\n");
    for (const char* options : {"", "--mesh 2"}) {
      const Outcome ran = run(options);
      EXPECT_EQ(ran.code, 0) << loss << options << ran.err;
      EXPECT_THAT(ran.out, AllOf(HasSubstr("loss 5.0000"), HasSubstr("loss 4.9000"), HasSubstr("loss 4.8000")))
          << loss << options;
    }
  }
}

TEST_F(RightModels, OutputsThatAreUpdatedAreWhatTheyWereInTheStep) {
  const std::string state = "  Tensor s = state(\"s\", {}, zeros());\n  update(s, s + 1);\n  metric(\"q\", ";
  for (const char* same : {"s", "s * 1", "s + 0"}) {
    write(state + same + ");");
    EXPECT_THAT(metric(), ElementsAre(0, 1, 2)) << same;
    EXPECT_THAT(metric("--mesh 2 --ratio 2,1"), ElementsAre(0, 1, 2)) << same;
  }
  write(state + "s * 3 + 1);");
  EXPECT_THAT(metric(), ElementsAre(1, 4, 7));
  for (const char* output : {"w", "reshape(w, {9})", "slice(w, 0, 0, 2)", "w + 0", "transpose(w, {1, 0})", "w * 2"}) {
    write(std::string("  output(\"q\", ") + output + ");");
    for (const char* options : {"", "--mesh 2 --ratio 2,1"}) EXPECT_EQ(run(options).code, 0) << output << options;
  }
}

TEST_F(RightModels, SumsOfSamplesAreMetricsInTurnsToo) {
  for (const char* sum : {"sum(x)", "sum(square(x))", "sum(sum(x, {0}))"}) {
    write(std::string("  metric(\"q\", ") + sum + ");");
    const std::vector<double> whole = metric(), turns = metric("--turns 2");
    ASSERT_EQ(whole.size(), 3U) << sum;
    ASSERT_EQ(turns.size(), 3U) << sum;
    for (size_t i = 0; i < 3; ++i)  // four digits are told, and sums come in another order
      EXPECT_NEAR(whole[i], turns[i], 2e-4 * std::max(1.0, std::abs(whole[i]))) << sum;
  }
  write("  output(\"s\", sum(x, {0}));");
  EXPECT_EQ(run("--turns 2").code, 0);
}

/// A rank that holds one element of what a loop fills writes it without a loop of its own.
TEST_F(RightModels, LoopsAreCheckedWhereARankHoldsOneElement) {
  write(
      "  Tensor z = reshape(slice(tanh(matmul(x, parameter(\"e\", {3, 6}, normal(0.5)))), 0, 0, 1), {1, 6, 1});\n"
      "  Tensor h = gru(z, gru_weights(\"g\", 1, 1));\n  metric(\"q\", sum(h));");
  ASSERT_EQ(place.run("plan model.cpp --cluster c.toml --mesh 2 -o p.json").code, 0);
  EXPECT_EQ(place.run("verify model.cpp p.json --source").code, 0);
}

TEST_F(RightModels, ValuesThatAreEmptyAreNotLeftOutInSilence) {
  for (const char* option : {"--resume", "--checkpoint", "--data", "--init-from", "--plan", "--log-json", "--seed"}) {
    EXPECT_THAT(run(std::string(option) + " ''"), Fails(2, HasSubstr(std::string(option) + " is empty"))) << option;
    EXPECT_THAT(run(std::string(option) + "="), Fails(2, HasSubstr(std::string(option) + " is empty"))) << option;
  }
  EXPECT_THAT(place.run("verify model.cpp ''"),
              Fails(2, ::testing::AllOf(HasSubstr("an argument is empty"), HasSubstr("a variable of the shell"))));
}

}  // namespace
}  // namespace hetsynth::testing
