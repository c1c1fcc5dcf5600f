// hetsynth run --checkpoint and --resume: what is refused, when, and that no work is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointCommand : public ::testing::Test {
 protected:
  Outcome run(const std::string& options) const {
    return place.run("run model.cpp --cluster c.toml --sample 0 " + options);
  }
  void expect_done(const Outcome& outcome) const { ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err; }
  nlohmann::json shown(const std::string& file) const {
    return nlohmann::json::parse(place.run("checkpoint " + file + " --json").out);
  }
  /// Refused with these words, and before anything was planned.
  void expect_early(const std::string& options, int code, const std::string& words) const {
    const Outcome refused = run(options);
    EXPECT_THAT(refused, Fails(code, HasSubstr(words))) << options;
    EXPECT_THAT(refused.out, Not(HasSubstr("plan for"))) << options;
  }
  const Workplace place;
};

TEST_F(CheckpointCommand, PlacesThatCannotBeWrittenAreToldBeforePlanning) {
  expect_early("--checkpoint absent/a.st", 1,
               "absent/a.st: error: cannot write the checkpoint: the folder absent: No such file");
  expect_early("--checkpoint .", 1, "Is a directory");
  expect_early("--checkpoint model.cpp", 3, "is no checkpoint of hetsynth; it was left as it is");
  expect_early("--log-json absent/log.json", 1, "cannot write the step log");
  expect_early("--log-json model.cpp", 3, "is no step log");
  EXPECT_EQ(place.read("model.cpp"), small_model);
}

TEST_F(CheckpointCommand, OfNoStepHoldsTheStartingValues) {
  expect_done(run("--steps 0 --checkpoint a.st --seed 7"));
  EXPECT_EQ(shown("a.st").at("next_step"), 0);
  EXPECT_EQ(shown("a.st").at("seed"), 7);
  expect_done(run("--steps 4 --resume a.st --checkpoint b.st"));
  expect_done(run("--steps 4 --seed 7 --checkpoint c.st"));
  EXPECT_EQ(place.read("b.st"), place.read("c.st"));
}

TEST_F(CheckpointCommand, GoesOnWithAnotherBatchAtTheNextSample) {
  expect_done(run("--steps 5 --checkpoint a.st"));
  EXPECT_EQ(shown("a.st").at("samples"), 60);
  expect_done(run("--steps 3 --resume a.st --batch 4 --checkpoint b.st"));
  EXPECT_EQ(shown("b.st").at("next_step"), 8);
  EXPECT_EQ(shown("b.st").at("samples"), 72);
  expect_done(run("--steps 2 --resume b.st --batch 4 --accumulate 3 --checkpoint c.st"));
  EXPECT_EQ(shown("c.st").at("samples"), 96);
}

TEST_F(CheckpointCommand, TellsThePlanItWasTrainedUnder) {
  expect_done(run("--steps 1 --ratio 3,1 --pin 'w1=sharded(1)' --checkpoint a.st"));
  const std::string plan = shown("a.st").at("plan");
  EXPECT_THAT(plan, ::testing::ContainsRegex("^mesh 2 on small: fast [67][0-9]\\.[0-9]%, slow [23][0-9]\\.[0-9]%$"));
  EXPECT_THAT(place.run("checkpoint a.st").out, HasSubstr("  plan       " + plan + "\n"));
  // One that goes on under another plan tells that.
  expect_done(run("--steps 1 --without slow --resume a.st --checkpoint b.st"));
  EXPECT_EQ(shown("b.st").at("plan"), "mesh 1 on small: fast 100.0%");
}

TEST_F(CheckpointCommand, TheSeedIsTheCheckpointsAndAnotherIsRefused) {
  expect_done(run("--steps 2 --seed 3 --checkpoint a.st"));
  expect_early("--steps 2 --resume a.st --seed 4", 2, "a run that goes on keeps the seed of its checkpoint");
}

TEST_F(CheckpointCommand, OtherDataAreNamedAndBegunOnlyIfAskedFor) {
  const std::string with_text =
      everywhere(everywhere(small_model, "synthetic_batch(batch, 6, 3)", "text_next_byte(batch, 6)"), "matmul(x, w1)",
                 "matmul(reshape(embedding(parameter(\"t\", {256, 1}, normal(1)), x), {batch, 6}), w1)");
  place.write("model.cpp", everywhere(with_text, "{16, 3}", "{16, 256}"));
  place.write("one.txt", std::string(500, 'a') + std::string(500, 'b'));
  place.write("same.txt", std::string(500, 'a') + std::string(500, 'b'));
  place.write("two.txt", std::string(501, 'a') + std::string(499, 'b'));
  expect_done(run("--steps 5 --data one.txt --checkpoint a.st"));
  expect_done(run("--steps 1 --data same.txt --resume a.st"));
  expect_early("--steps 1 --data two.txt --resume a.st", 3, "the checkpoint was trained on other data");
  expect_early("--steps 1 --resume a.st", 3, "one.txt");
  expect_done(run("--steps 2 --data two.txt --resume a.st --new-data --checkpoint b.st"));
  EXPECT_EQ(shown("b.st").at("next_step"), 7);
  EXPECT_EQ(shown("b.st").at("samples"), 24);
}

TEST_F(CheckpointCommand, OfAnotherModelIsRefusedBeforePlanning) {
  expect_done(run("--steps 1 --checkpoint a.st"));
  place.write("model.cpp", everywhere(everywhere(small_model, "{6, 16}", "{6, 8}"), "{16, 3}", "{8, 3}"));
  expect_early("--steps 1 --resume a.st", 3, "tensor w1 has another type");
}

TEST_F(CheckpointCommand, ShowsWhatItHoldsAndWhetherItIsWhole) {
  expect_done(run("--steps 3 --checkpoint-every 1 --checkpoint a.st"));
  EXPECT_EQ(shown("a.st.previous").at("next_step"), 2);
  EXPECT_THAT(place.run("checkpoint a.st").out,
              AllOf(HasSubstr("a.st: whole"), HasSubstr("next step  3"), HasSubstr("synthetic samples"),
                    HasSubstr("4 tensors"), HasSubstr("f32[6,16]")));
  std::string bytes = place.read("a.st");
  bytes.back() = char(bytes.back() ^ 4);
  place.write("a.st", bytes);
  for (const char* command : {"checkpoint a.st", "run model.cpp --cluster c.toml --resume a.st"})
    EXPECT_THAT(place.run(command), Fails(3, AllOf(HasSubstr("is damaged"), HasSubstr("--resume a.st.previous"))));
}

/// Whatever C++ variables, inputs and states have the same name.
TEST_F(CheckpointCommand, NamesOfParametersStayAsTheyAreGiven) {
  place.write("model.cpp", R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [samples, labels] = synthetic_batch(12, 6, 3);
  Tensor scale = parameter("samples", {6}, ones());
  Tensor h = relu(matmul(samples * scale, parameter("h", {6, 16}, normal(0.3))));
  Tensor bias = h * 2;
  Tensor out = matmul(bias, parameter("out", {16, 3}, normal(0.3))) + parameter("bias", {3}, zeros());
  minimize(cross_entropy(out, labels), SGD{.learning_rate = 0.1, .momentum = 0});
}
)");
  expect_done(run("--steps 2 --checkpoint a.st"));
  std::vector<std::string> names;
  const nlohmann::json checkpoint = shown("a.st");
  for (const auto& tensor : checkpoint.at("tensors")) names.push_back(tensor.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"bias", "h", "out", "samples"}));
}

TEST_F(CheckpointCommand, ASecondParameterOfANameIsRefusedWithBothPlaces) {
  place.write("model.cpp", everywhere(small_model, "\"w2\"", "\"w1\""));
  EXPECT_THAT(run(""), Fails(3, AllOf(HasSubstr("model.cpp:9:"), HasSubstr("a second parameter or state is called w1"),
                                      HasSubstr("model.cpp:7:"), HasSubstr("the first w1 is made here"))));
}

TEST_F(CheckpointCommand, NamesThatNoFileCanHoldAreRefusedWhereTheyAreGiven) {
  for (const char* name :
       {"a\\nb", "a\\\\b", "\\xff", "\\xc0\\xaf", "\\xed\\xa0\\x80", "__metadata__", "a\\\"b", "\\x7f"}) {
    place.write("model.cpp", everywhere(small_model, "\"w1\"", std::string("\"") + name + "\""));
    EXPECT_THAT(place.run("run model.cpp --cluster c.toml"),
                Fails(3, AllOf(HasSubstr("model.cpp:7:"), HasSubstr("the name cannot stand in plans and checkpoints"))))
        << name;
  }
  place.write("model.cpp", everywhere(small_model, "\"w1\"", "\"" + std::string(1000, 'w') + "\""));
  EXPECT_THAT(run(""), Fails(3, HasSubstr("found:    1000 bytes")));
  for (const char* name : {"weights of layer 1", "\\xc3\\xa4", "a@b:R", "w.1/x"}) {
    place.write("model.cpp", everywhere(small_model, "\"w1\"", std::string("\"") + name + "\""));
    expect_done(place.run("plan model.cpp --cluster c.toml -o plan.json"));
    expect_done(run("--plan plan.json --steps 1 --checkpoint a.st"));
    expect_done(run("--steps 1 --resume a.st"));
  }
}

/// A loss that is not finite: the value that began it, and its line.
TEST(NotFinite, TheFirstValueIsNamedWithItsLine) {
  const Workplace place;
  const auto run = [&](const std::string& from, const std::string& to) {
    place.write("model.cpp", everywhere(small_model, from, to));
    return place.run("run model.cpp --cluster c.toml --sample 0 --steps 9");
  };
  EXPECT_THAT(run("relu(matmul(x, w1))", "log(matmul(x, w1))"),
              Fails(1, AllOf(HasSubstr("model.cpp:8:"), HasSubstr("[log] the loss of step 0 is"),
                             HasSubstr("the first value that is not finite is h, in step 0"),
                             HasSubstr("a logarithm of 0 or less"))));
  EXPECT_THAT(run("relu(matmul(x, w1))", "exp(1000 * matmul(x, w1))"),
              Fails(1, AllOf(HasSubstr("model.cpp:8:"), HasSubstr("[exp]"), HasSubstr("in step 0"),
                             HasSubstr("the largest number it was computed from is"), HasSubstr("exp overflows"))));
  EXPECT_THAT(
      run("relu(matmul(x, w1))", "relu(matmul(cast(1e6 * x, fp16), cast(w1, fp16)))"),
      Fails(1, AllOf(HasSubstr("model.cpp:8:"), HasSubstr("[cast]"), HasSubstr("in step 0"), HasSubstr("inf at ["),
                     HasSubstr("fp16 holds nothing beyond 65504: take a DynamicLossScale"))));
  EXPECT_THAT(run("0.1}", "1e30}"), Fails(1, AllOf(HasSubstr("the loss of step"), HasSubstr("learning rate"))));
}

/// A dynamic scale hides gradients that are not finite from the loss: each step is skipped, and nothing is trained.
TEST(NotFinite, AScaleThatOnlyFallsIsTold) {
  const Workplace place;
  const auto run = [&](const std::string& scale, const std::string& loss) {
    place.write("model.cpp",
                everywhere(everywhere(small_model, "void model() {",
                                      "void model() { mixed_precision(\"fp16\", DynamicLossScale{" + scale + "});"),
                           "minimize(loss,", "minimize(" + loss + "loss,"));
    return place.run("run model.cpp --cluster c.toml --sample 0 --steps 30 --checkpoint a.st");
  };
  EXPECT_THAT(run("", "sum(sqrt(square(parameter(\"g\", {3}, zeros())))) + "),
              Fails(1, AllOf(HasSubstr("model.cpp:"),
                             HasSubstr("[sqrt_gradient] gradients overflowed in 20 steps in a "
                                       "row, though the loss scale fell to 0.0625"),
                             HasSubstr("(of the backward pass), in step 19"), HasSubstr("the slope of a root at 0"))));
  EXPECT_EQ(nlohmann::json::parse(place.run("checkpoint a.st --json").out).at("next_step"), 20)
      << "parameters are what they were, and are kept";
  EXPECT_THAT(run(".initial = 1e35", ""),
              Fails(1, AllOf(HasSubstr("[cast] gradients overflowed in 20 steps in a row"), HasSubstr("inf at ["),
                             HasSubstr("begin with a smaller scale (initial)"))));
  EXPECT_EQ(run(".initial = 65536", "").code, 0);
}

/// What is not finite and does no harm is not blamed: masks, and what nothing is made of; nor is what came of it later.
TEST(NotFinite, TheOriginIsNamedAndNotWhatItLedTo) {
  const Workplace place;
  const auto run = [&](const std::string& lines, const std::string& loss) {
    place.write("model.cpp",
                everywhere(everywhere(small_model, "Tensor h =", lines + " auto h ="), "(loss,", "(" + loss + "loss,"));
    return place.run("run model.cpp --cluster c.toml --sample 0 --steps 4");
  };
  EXPECT_THAT(run("Tensor acc = state(\"acc\", {3}, ones()); update(acc, acc * 1e30);", "0.0 * sum(acc) + "),
              Fails(1, AllOf(HasSubstr("[mul]"), HasSubstr("in step 1"), HasSubstr("the state grow without bound"))));
  EXPECT_THAT(run("Tensor c = parameter(\"c\", {2, 3}, zeros()); Tensor n = sqrt(sum(square(c), {0}));", "sum(n) + "),
              Fails(1, AllOf(HasSubstr("[sqrt_gradient]"), HasSubstr("(of the backward pass), in step 0"),
                             HasSubstr("the slope of a root at 0"))));
  EXPECT_THAT(run("Tensor m = full({2, 3}, -1e40); Tensor c = parameter(\"c\", {2, 3}, ones());"
                  "Tensor s = softmax(where(c > 0.5, c, m), 1); Tensor bad = 1 / sum(c - c);",
                  "sum(s) * 0.0 + sum(bad) * 0.0 + "),
              Fails(1, AllOf(HasSubstr("[div]"), HasSubstr("is bad, in step 0"), HasSubstr("a division by 0"))));
  EXPECT_THAT(run("Tensor b = parameter(\"b\", {3}, ones()); Tensor tall = pow(2.0 * b, 1e3);", "0.0 * sum(tall) + "),
              Fails(1, AllOf(HasSubstr("is tall, in step 0"), HasSubstr("or one beyond 3.4e38"))));
  EXPECT_THAT(run("Tensor b = parameter(\"b\", {2, 3}, ones()); Tensor g = parameter(\"g\", {3}, ones());"
                  "Tensor even = batchnorm(b, g, g, 0);",
                  "sum(even) + "),
              Fails(1, AllOf(HasSubstr("in step 0"), HasSubstr("give it an epsilon above 0"))));
}

/// Of what a loop makes in its turns, the turn and the line in the body are named.
TEST(NotFinite, TheOriginInALoopIsNamedWithItsTurn) {
  const Workplace place;
  const std::string body =
      "ScanResult r = scan(x, {parameter(\"start\", {12}, ones())}, [](const std::vector<Tensor>& s, Tensor now) {\n"
      "  Tensor grown = s[0] * 1e10 + 0.0 * now;\n"
      "  return ScanStep{{grown}, grown};\n"
      "});\nauto h =";
  place.write("model.cpp",
              everywhere(everywhere(small_model, "Tensor h =", body), "(loss,", "(0.0 * sum(r.outputs) + loss,"));
  EXPECT_THAT(place.run("run model.cpp --cluster c.toml --sample 0 --steps 4"),
              Fails(1, AllOf(HasSubstr("model.cpp:9:"), HasSubstr("is grown"), HasSubstr("[3]"), HasSubstr("in step 0"),
                             HasSubstr("the largest number it was computed from is 1e+30"))));
  // So are those of the samples that are taken in turns.
  place.write("model.cpp", everywhere(small_model, "relu(matmul(x, w1))", "log(matmul(x, w1))"));
  EXPECT_THAT(place.run("run model.cpp --cluster c.toml --sample 0 --steps 4 --turns 3"),
              Fails(1, AllOf(HasSubstr("model.cpp:8:"), HasSubstr("[log]"), HasSubstr("is h[0], in step 0"),
                             HasSubstr("a logarithm of 0 or less"))));
}

TEST(NotFinite, ALearningRateOfZeroTrainsAndOneThatIsNoNumberIsRefused) {
  const Workplace place;
  place.write("model.cpp", everywhere(small_model, "0.1}", "0, .momentum = 0}"));
  EXPECT_EQ(place.run("run model.cpp --cluster c.toml --sample 0 --steps 2 --checkpoint a.st").code, 0);
  EXPECT_EQ(place.run("run model.cpp --cluster c.toml --sample 0 --steps 0 --checkpoint b.st").code, 0);
  const auto tensors = [&](const char* file) { return place.read(file).substr(place.read(file).size() - 576); };
  EXPECT_EQ(tensors("a.st"), tensors("b.st"));
  for (const char* rate : {"-1}", "0.0 / 0.0}", "1e300 * 1e300}"}) {
    place.write("model.cpp", everywhere(small_model, "0.1}", rate));
    EXPECT_THAT(place.run("run model.cpp --cluster c.toml"), Fails(3, HasSubstr("learning_rate is out of range")));
  }
}

}  // namespace
}  // namespace hetsynth::testing
