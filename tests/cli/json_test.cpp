// --json: every command has it, and what stands on standard output is one object (a list of runs of `history`), with
// all that people are told meanwhile on standard error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

TEST(JsonReports, EveryCommandHasThem) {
  const Workplace place;
  for (const std::string command :
       {"run", "plan", "verify", "inspect", "explain", "diff", "evaluate", "generate", "checkpoint", "export",
        "history", "elastic", "join", "probe", "doctor", "tokenize"})
    EXPECT_THAT(place.run(command + " --help").out, HasSubstr("--json")) << command;
}

TEST(JsonReports, OfARunTellWhatWasPlannedTrainedMeasuredAndWritten) {
  const Workplace place;
  const Outcome ran = place.run(
      "run model.cpp --cluster c.toml --steps 10 --valid synthetic --valid-every 4 --valid-batches 2 --keep best "
      "--checkpoint a.st --log-json log --json");
  const Json run = json_of(ran);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("plan for model.cpp"), HasSubstr("proved: "), HasSubstr("step 9/9"),
                             HasSubstr("validation after 10 steps")));
  EXPECT_EQ(run.at("steps"), 10);
  EXPECT_EQ(run.at("next_step"), 10);
  EXPECT_EQ(run.at("complete"), true);
  EXPECT_GT(run.at("loss"), 0);
  EXPECT_GT(run.at("step_seconds"), 0);
  EXPECT_EQ(run.at("predicted_step_seconds"), run.at("plan").at("step_seconds"));
  EXPECT_GT(run.at("samples_per_second"), 0);
  EXPECT_GT(run.at("devices").at(0).at("memory_bytes"), 0);
  EXPECT_EQ(run.at("devices").at(0).at("device"), run.at("plan").at("devices").at(0).at("device"));
  EXPECT_EQ(run.at("verification").at("verdict"), "proved");
  EXPECT_EQ(run.at("verification").at("source").at("verdict"), "proved");
  const Json& validation = run.at("validation");
  ASSERT_EQ(validation.at("measurements").size(), 3u);
  EXPECT_EQ(validation.at("measurements").at(2).at("step"), 9);
  EXPECT_EQ(validation.at("measurements").at(2).at("validation_loss"), validation.at("loss"));
  EXPECT_LE(validation.at("best_loss"), validation.at("loss"));
  EXPECT_EQ(run.at("checkpoints"), Json({"a.st", "a.st.best"}));
  // The same, read back from the log.
  const Json history = json_of(place.run("history log --json")).at(0);
  EXPECT_EQ(history.at("validations").size(), 3u);
  EXPECT_EQ(history.at("best_validation").at("loss"), validation.at("best_loss"));
  EXPECT_EQ(history.at("checkpoints").back().at("file"), "a.st");
}

TEST(JsonReports, OfARunThatFailsAreLeftOut) {
  const Workplace place;
  place.write("model.cpp", everywhere(small_model, "learning_rate = 0.1", "learning_rate = 1e30"));
  const Outcome ran = place.run("run model.cpp --cluster c.toml --steps 30 --json");
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("the loss of step"));
}

TEST(JsonReports, OfARunHaveTheSampleAsItIs) {
  const Workplace place;
  place.write("model.cpp", everywhere(small_text_model,
                                      "minimize(cross_entropy(matmul(x, parameter(\"w\", {8, 256}, "
                                      "normal(0.3))), next)",
                                      "Tensor logits = matmul(x, parameter(\"w\", {8, 256}, normal(0.3)));\n"
                                      "output(\"logits\", logits); minimize(cross_entropy(logits, next)"));
  const Json run = json_of(place.run("run model.cpp --cluster c.toml --steps 2 --sample 20 --prompt ab --json"));
  EXPECT_THAT(run.at("sample").get<std::string>(), ::testing::StartsWith("ab"));
}

TEST(JsonReports, OfWhatIsWritten) {
  const Workplace place;
  ASSERT_EQ(place.run("run model.cpp --cluster c.toml --steps 1 --checkpoint a.st").code, 0);
  place.write("rules.toml", "[tensors]\nw1 = \"first\"\nw2 = \"second\"\n");
  const Json exported = json_of(place.run("export a.st --map rules.toml -o b.safetensors --json"));
  EXPECT_EQ(exported.at("file"), "b.safetensors");
  EXPECT_EQ(exported.at("tensors"), 2);
  EXPECT_EQ(exported.at("bytes"), 4 * (6 * 16 + 16 * 3));
  place.write("text.txt", "the same words, the same words again");
  EXPECT_EQ(json_of(place.run("tokenize text.txt --train-bpe 260 -o t.json --json")).at("tokens"), 260);
  const Json tokens = json_of(place.run("tokenize text.txt -t t.json -o t.npy --json"));
  EXPECT_EQ(tokens.at("bytes"), 36);
  EXPECT_LT(tokens.at("tokens"), 36);
  EXPECT_EQ(tokens.at("vocabulary"), 260);
  EXPECT_EQ(json_of(place.run("tokenize --decode t.npy -t t.json --json")).at("text"),
            "the same words, the same words again");
  ASSERT_EQ(place.run("plan model.cpp --cluster c.toml -o plan.json").code, 0);
  EXPECT_THAT(json_of(place.run("inspect model.cpp plan.json --json")).at("files").at(0).at("text").get<std::string>(),
              HasSubstr("hetsynth_step"));
  EXPECT_EQ(json_of(place.run("inspect model.cpp plan.json --out sources --json")).at("folder"), "sources");
}

TEST(JsonReports, OfWhatIsMeasured) {
  const Workplace place;
  place.write("one.toml",
              "[[host]]\nname = \"here\"\n[[host.device]]\nname = \"core\"\nkind = \"cpu\"\nmemory = "
              "\"1 GiB\"\ndeclared = { matmul = \"40 GFLOP/s\", memory_bandwidth = \"10 GB/s\" }\n");
  const Json probed = json_of(place.run("probe one.toml --seconds 0.02 -o two.toml --json"));
  EXPECT_EQ(probed.at("hosts").at(0).at("host"), "here");
  EXPECT_EQ(probed.at("hosts").at(0).at("measured").at(0).at("was_taken"), 40);
  EXPECT_EQ(probed.at("file"), "two.toml");
}

}  // namespace
}  // namespace hetsynth::testing
