// The commands on a model small enough to plan, prove and train in a moment: what they print, write and return.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "dsl/base/file.h"
#include "hetsynth/build_paths.h"
#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void expect_done(const Outcome& outcome) { ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err; }

/// The losses of a JSON log, one per step.
std::vector<double> losses(const std::string& log) {
  std::vector<double> result;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) result.push_back(json::parse(line).at("loss"));
  return result;
}

TEST(Commands, HelpAndVersion) {
  const Workplace place;
  const Outcome help = place.run("--help");
  expect_done(help);
  for (const char* command : {"run", "plan", "verify", "inspect", "doctor"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome own = place.run(std::string(command) + " --help");
    expect_done(own);
    EXPECT_THAT(own.out, HasSubstr("--help"));
  }
  EXPECT_THAT(help.out, HasSubstr("Exit codes: 0 done"));
  EXPECT_THAT(place.run("--version").out, HasSubstr("."));
}

/// Options that may be repeated take one value each time: what stands behind it is the model.
TEST(Commands, FilesMayStandBehindOptions) {
  const Workplace place;
  const Outcome planned = place.run("plan --set batch=6 model.cpp --without slow --cluster c.toml --json");
  expect_done(planned);
  expect_done(place.run("run --set batch=6 --set batch=8 model.cpp --cluster c.toml --sample 0 --steps 1"));
  expect_done(place.run("run --cluster c.toml --steps 1 --sample 0 --checkpoint a.st model.cpp"));
  place.write("rules.toml", "[tensors]\nw1 = \"first\"\n");
  const Outcome exported = place.run("export --metadata general.name=b a.st --map rules.toml -o a.safetensors");
  EXPECT_THAT(exported.err, HasSubstr("--tokenizer and --metadata go into GGUF files alone"));
}

TEST(Commands, PlanVerifyInspectRun) {
  const Workplace place;
  const Outcome planned = place.run("plan model.cpp --cluster c.toml -o plan.json");
  expect_done(planned);
  EXPECT_THAT(planned.out, HasSubstr("plan for model.cpp on small ("));
  EXPECT_THAT(planned.out, HasSubstr("even data parallel"));
  const Outcome verified = place.run("verify model.cpp plan.json");
  expect_done(verified);
  EXPECT_THAT(verified.out, HasSubstr("proved: "));
  EXPECT_THAT(verified.out, HasSubstr("scope: "));
  const Outcome source = place.run("inspect model.cpp plan.json --rank 0");
  expect_done(source);
  EXPECT_THAT(source.out, HasSubstr("hetsynth_step"));
  EXPECT_THAT(source.out, HasSubstr("model.cpp:8"));
  const Outcome run = place.run("run model.cpp --cluster c.toml --plan plan.json --steps 30 --log-json log.json");
  expect_done(run);
  const std::vector<double> loss = losses(place.read("log.json"));
  ASSERT_EQ(loss.size(), 30u);
  EXPECT_LT(loss.back(), loss.front());
}

/// Threads of OpenMP that spin keep those that they wait for off a core that others use too.
TEST(Commands, ThreadsThatWaitSleepSoonUnlessTheUserSaysOtherwise) {
  const Workplace place;
  const std::string run = "run model.cpp --cluster c.toml --steps 1 --sample 0";
  const Outcome usual = place.run(run, "env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose");
  expect_done(usual);
  EXPECT_THAT(usual.err, HasSubstr("GOMP_SPINCOUNT = '1000'"));
  const Outcome chosen = place.run(run, "env GOMP_SPINCOUNT=77 OMP_DISPLAY_ENV=verbose");
  expect_done(chosen);
  EXPECT_THAT(chosen.err, ::testing::AllOf(HasSubstr("GOMP_SPINCOUNT = '77'"), ::testing::Not(HasSubstr("'1000'"))));
}

TEST(Commands, CertificatesAreWrittenAndChecked) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml -o plan.json"));
  expect_done(place.run("verify model.cpp plan.json -o cert.json"));
  const Outcome checked = place.run("verify model.cpp plan.json --cert cert.json");
  expect_done(checked);
  EXPECT_THAT(checked.out, HasSubstr("proved: "));
  std::string text = place.read("cert.json");
  const size_t at = text.find("\"instructions\": ");
  ASSERT_NE(at, std::string::npos);
  text[at + 16] = text[at + 16] == '9' ? '8' : '9';
  place.write("edited.json", text);
  EXPECT_THAT(place.run("verify model.cpp plan.json --cert edited.json"),
              Fails(3, HasSubstr("was changed after it was made")));
  EXPECT_EQ(place.run("verify model.cpp plan.json --cert plan.json").code, 3);
}

/// The first device has the first queries, which see the first keys: gradients of the other keys stay what they are
/// filled with.
TEST(Commands, CausalQueriesOfTheFirstTokensAreCheckedInSource) {
  const Workplace place;
  const std::string model = "'" HETSYNTH_SOURCE_DIR "/examples/gpt.cpp'";
  expect_done(place.run("plan " + model + " --cluster '" HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml'" +
                        " --batch 8 --set layers=1 --set width=64 --set heads=2 -o plan.json"));
  const Outcome generated = place.run("verify " + model + " plan.json --source");
  expect_done(generated);
  EXPECT_THAT(generated.out, HasSubstr("source: the generated programs of 2 ranks do what the plan says"));
  expect_done(place.run("inspect " + model + " plan.json --out project"));
  const std::string text = place.read("project/rank0.cpp");
  for (const auto& [right, wrong] : {std::pair{"s_stop_ = t_end_ < 64 ? t_end_ : 64", "s_stop_ = t_end_ - 1"},
                                     std::pair{"fill(d_value, 32768, 0.0f)", "fill(d_value, 32768, 1.0f)"}}) {
    const size_t at = text.rfind(right);
    ASSERT_NE(at, std::string::npos) << right;
    place.write("project/rank0.cpp", text.substr(0, at) + wrong + text.substr(at + std::string(right).size()));
    const Outcome edited = place.run("verify " + model + " plan.json --source-dir project");
    EXPECT_EQ(edited.code, 5) << edited.out;
    EXPECT_THAT(edited.out, HasSubstr("source refuted: rank 0"));
  }
}

/// The row sums of attention's gradient are taken from its result, made of values that the forward pass gathered and
/// the backward pass gathers anew.
TEST(Commands, WhatIsGatheredAnewIsCheckedAsWhatItWas) {
  const Workplace place;
  const std::string model = "'" HETSYNTH_SOURCE_DIR "/examples/gpt.cpp'";
  const std::string cluster = read_file(HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml", "the cluster", 1 << 20);
  place.write("tight.toml", everywhere(cluster, "2 GiB", "19200 KiB"));
  expect_done(
      place.run("plan " + model + " --cluster tight.toml --batch 8 --accumulate 2 --forbid recompute -o plan.json"));
  expect_done(place.run("inspect " + model + " plan.json --out project"));
  const Outcome generated = place.run("verify " + model + " plan.json --source-dir project");
  expect_done(generated);
  EXPECT_THAT(generated.out, HasSubstr("source: the generated programs of 2 ranks do what the plan says"));
  const std::string text = place.read("project/rank0.cpp");
  for (const auto& [right, wrong] :
       {std::pair{"compute_d_weights_4_2(mixed_8, d_mixed_8", "compute_d_weights_4_2(mixed_8, mixed_8"},
        std::pair{"compute_d_weights_4_2(mixed_8, d_mixed_8", "compute_d_weights_4_2(mixed_7, d_mixed_8"},
        std::pair{", value_8, value_8_gathered_2", ", key_8, value_8_gathered_2"}}) {
    const size_t at = text.find(right);
    ASSERT_NE(at, std::string::npos) << right;
    place.write("project/rank0.cpp", text.substr(0, at) + wrong + text.substr(at + std::string(right).size()));
    const Outcome edited = place.run("verify " + model + " plan.json --source-dir project");
    EXPECT_EQ(edited.code, 5) << wrong << edited.out;
    EXPECT_THAT(edited.out, HasSubstr("source refuted: rank 0")) << wrong;
  }
}

TEST(Commands, GeneratedSourceIsHeldAgainstThePlan) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml -o plan.json"));
  const Outcome generated = place.run("verify model.cpp plan.json --source");
  expect_done(generated);
  EXPECT_THAT(generated.out, HasSubstr("source: the generated programs of"));
  expect_done(place.run("inspect model.cpp plan.json --out project"));
  expect_done(place.run("verify model.cpp plan.json --source-dir project"));
  std::string text = place.read("project/rank0.cpp");
  const size_t step = text.find("hetsynth_step("), call = text.find("  compute_", step);
  ASSERT_NE(call, std::string::npos);
  place.write("project/rank0.cpp", text.substr(0, call) + text.substr(text.find(";\n", call) + 2));
  const Outcome edited = place.run("verify model.cpp plan.json --source-dir project");
  EXPECT_EQ(edited.code, 5) << edited.out;
  EXPECT_THAT(edited.out, HasSubstr("source refuted: rank 0"));
  EXPECT_EQ(place.run("verify model.cpp plan.json --source-dir nowhere").code, 2);
}

TEST(Commands, NumbersAreHeldAgainstTheInterpreter) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml -o plan.json"));
  const Outcome checked = place.run("verify model.cpp plan.json --numeric");
  expect_done(checked);
  EXPECT_THAT(checked.out, HasSubstr("numbers agree: one step of"));
  EXPECT_THAT(checked.out, HasSubstr("longest sum"));
  const Outcome reported = place.run("verify model.cpp plan.json --numeric --seed 3 --json");
  expect_done(reported);
  const json numeric = json::parse(reported.out).at("numeric");
  EXPECT_EQ(numeric.at("agrees"), true);
  EXPECT_EQ(numeric.at("tensors").at(0).at("name"), "loss");
  for (const json& tensor : numeric.at("tensors")) EXPECT_LE(tensor.at("error"), tensor.at("bound")) << tensor;
  EXPECT_EQ(place.run("verify model.cpp plan.json --seed 3").code, 2);
}

/// What the check of sources does not follow is run and held against the interpreter.
TEST(Commands, NumbersShowADefectOfGeneratedSource) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml -o plan.json"));
  expect_done(place.run("inspect model.cpp plan.json --out project"));
  const std::string command = "verify model.cpp plan.json --source-dir project --numeric";
  expect_done(place.run(command));
  std::string text = place.read("project/rank0.cpp");
  ASSERT_NE(text.find("float* const w1 = "), std::string::npos) << text;
  const size_t end = text.rfind("  return 0;\n}\n");
  ASSERT_NE(end, std::string::npos);
  place.write("project/rank0.cpp", text.insert(end, "  if (context->step == 0) w1[0] += 0.25f;\n"));
  const Outcome wrong = place.run(command);
  EXPECT_EQ(wrong.code, 5) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("a condition"));
  EXPECT_THAT(wrong.out, HasSubstr("DIFFERS"));
}

TEST(Commands, SameSeedSameLosses) {
  const Workplace place;
  for (const char* log : {"a.json", "b.json"})
    expect_done(place.run(std::string("run model.cpp --cluster c.toml --steps 5 --seed 7 --log-json ") + log));
  expect_done(place.run("run model.cpp --cluster c.toml --steps 5 --seed 8 --log-json c.json"));
  EXPECT_EQ(losses(place.read("a.json")), losses(place.read("b.json")));
  EXPECT_NE(losses(place.read("a.json")), losses(place.read("c.json")));
}

TEST(Commands, ReportsAreJsonOnRequest) {
  const Workplace place;
  const Outcome planned = place.run("plan model.cpp --cluster c.toml -o plan.json --json");
  expect_done(planned);
  EXPECT_GE(json::parse(planned.out).at("devices").size(), 1u);
  EXPECT_GT(json::parse(planned.out).at("step_seconds"), 0.0);
  const Outcome verified = place.run("verify model.cpp plan.json --json");
  expect_done(verified);
  EXPECT_EQ(json::parse(verified.out).at("verdict"), "proved");
  const Outcome doctor = place.run("doctor --json");
  expect_done(doctor);
  EXPECT_FALSE(json::parse(doctor.out).empty());
}

TEST(Commands, PlanningIsRepeatable) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml -o a.json"));
  expect_done(place.run("plan model.cpp --cluster c.toml -o b.json"));
  EXPECT_EQ(place.read("a.json"), place.read("b.json"));
}

TEST(Commands, PlanRemembersTheModelsOptions) {
  const Workplace place;
  expect_done(place.run("plan model.cpp --cluster c.toml --batch 20 -o plan.json"));
  EXPECT_THAT(place.read("plan.json"), HasSubstr("\"options\": {\"batch\": \"20\"}"));
  expect_done(place.run("verify model.cpp plan.json"));
}

TEST(Commands, ExamplesArePlannedAndProvedForEveryExampleCluster) {
  const Workplace place;
  const std::string examples = HETSYNTH_SOURCE_DIR "/examples";
  for (const auto& cluster : std::filesystem::directory_iterator(examples + "/clusters"))
    for (const char* model : {"gpt.cpp", "mlp.cpp"}) {
      const std::string file = "'" + examples + "/" + model + "' ";
      expect_done(place.run("plan " + file + "--cluster '" + cluster.path().string() + "' -o plan.json"));
      expect_done(place.run("verify " + file + "plan.json"));
    }
}

TEST(Commands, FewerSamplesThanRanks) {
  const Workplace place;
  const Outcome run = place.run("run model.cpp --cluster c.toml --batch 1 --steps 3 --log-json log.json");
  expect_done(run);
  EXPECT_EQ(losses(place.read("log.json")).size(), 3u);
}

/// The precision of a model that says nothing of it, by the command line alone.
TEST(Commands, ThePrecisionOfAnyModelIsGiven) {
  const Workplace place;
  ASSERT_EQ(place.run("plan model.cpp --cluster c.toml --precision fp16 -o plan.json").code, 0);
  EXPECT_THAT(place.read("plan.json"), HasSubstr("loss_scale"));
  EXPECT_EQ(place.run("verify model.cpp plan.json --precision fp16 --source").code, 0);
  EXPECT_EQ(place.run("run model.cpp --cluster c.toml --plan plan.json --precision fp16 --steps 3 --sample 0").code, 0);
  EXPECT_EQ(place.run("run model.cpp --cluster c.toml --set precision=bf16 --steps 3 --sample 0").code, 0);
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml --precision fp8"),
              Fails(2, ::testing::AllOf(HasSubstr("--precision"), HasSubstr("fp8"), HasSubstr("bf16"))));
  EXPECT_THAT(place.run("plan model.cpp --cluster c.toml --set precision=fp8"),
              Fails(2, HasSubstr("the model has no option named precision")));
}

}  // namespace
}  // namespace hetsynth::testing
