// What a user can get wrong on the command line: each gives its message, its exit code, no crash, and leaves every file
// as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace hetsynth::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// One run that has to be refused.
void expect_refusal(const Workplace& place, const std::string& arguments, int code,
                    const std::vector<std::string>& parts) {
  const Outcome outcome = place.run(arguments);
  EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.out << outcome.err;
  for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part)) << arguments;
  EXPECT_FALSE(place.exists("hetsynth-fault.txt")) << "a user's mistake was taken for a fault of hetsynth";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(BadUsage, IsAnsweredWithExitCodeTwo) {
  const Workplace place;
  expect_refusal(place, "", 2, {"a command is missing", "one of: run, plan, verify", "hetsynth --help"});
  expect_refusal(place, "frobnicate", 2,
                 {"there is no such command", "one of: run, plan, verify", "found:    frobnicate"});
  expect_refusal(place, "verfy model.cpp p.json", 2, {"did you mean \"verify\"?"});
  expect_refusal(place, "run", 2, {"[run] model is required", "expected: hetsynth run MODEL", "hetsynth run --help"});
  expect_refusal(place, "diff model.cpp p.json", 2, {"[diff] other is required", "hetsynth diff MODEL PLAN OTHER"});
  expect_refusal(place, "run model.cpp --frobnicate", 2,
                 {"[run] there is no such option or argument", "found:    --frobnicate", "hetsynth run --help"});
  expect_refusal(place, "run model.cpp --stepps 3", 2, {"found:    --stepps 3", "did you mean \"--steps\"?"});
  expect_refusal(place, "run model.cpp --steps many", 2, {"--steps"});
  expect_refusal(place, "run model.cpp --steps -1", 2, {"--steps: expected a number from 0, found -1"});
  expect_refusal(place, "plan model.cpp", 2, {"hetsynth plan MODEL --cluster CLUSTER"});
  expect_refusal(place, "plan model.cpp --cluster c.toml --time-limit -3", 2,
                 {"--time-limit: expected a number from 0, found -3"});
  expect_refusal(place, "run model.cpp --set batch", 2,
                 {"[--set] a setting needs a name and a value", "found:    batch"});
  expect_refusal(place, "run model.cpp --set batch=3 steps=4", 2,
                 {"[run] there is no such option or argument", "found:    steps=4",
                  "to mend:  --set takes one setting each time: --set steps=4"});
  expect_refusal(place, "run model.cpp --set batch=3 model.cpp", 2, {"found:    model.cpp", "hetsynth run --help"});
  expect_refusal(place, "run model.cpp --data *.toml *.cpp", 2,
                 {"found:    model.cpp", "put a pattern of several files into quotation marks"});
  expect_refusal(place, "run model.cpp --dump-after nothing", 2, {"--dump-after"});
  expect_refusal(place, "run model.cpp --new-data", 2, {"[run] --new-data requires --resume"});
}

TEST(BadModel, MissingFile) { expect_refusal(Workplace(), "run nothing.cpp", 3, {"nothing.cpp: error:"}); }

TEST(BadModel, DoesNotCompile) {
  const Workplace place;
  place.write("model.cpp", replaced(small_model, "relu(matmul(x, w1));", "relu(matmul(x, w1))"));
  expect_refusal(place, "run model.cpp", 3, {"model.cpp:8:33: error: expected ';'", "the model does not compile"});
}

TEST(BadModel, HasNoBuilder) {
  const Workplace place;
  place.write("model.cpp", "#include \"hetsynth/hetsynth.h\"\nvoid modell() {}\n");
  expect_refusal(place, "run model.cpp", 3, {"model.cpp: error: the model file defines no function `void model()`"});
}

TEST(BadModel, HasNoLoss) {
  const Workplace place;
  place.write("model.cpp", replaced(small_model, "minimize(loss, SGD{.learning_rate = 0.1});", ""));
  expect_refusal(place, "run model.cpp", 3, {"the model has no loss to minimise"});
}

TEST(BadModel, ShapesThatDoNotFit) {
  const Workplace place;
  place.write("model.cpp", replaced(small_model, "{6, 16}", "{7, 16}"));
  expect_refusal(place, "run model.cpp", 3, {"model.cpp:8:", "[matmul]", "[12,6]", "[7,16]"});
}

TEST(BadModel, ThrowsAnException) {
  const Workplace place;
  place.write("model.cpp", replaced(small_model, "void model() {",
                                    "#include <stdexcept>\nvoid model() {\n  throw std::runtime_error(\"no luck\");"));
  expect_refusal(place, "run model.cpp", 3, {"model.cpp: error: the model threw", "no luck"});
}

TEST(BadModel, UnknownSetting) {
  expect_refusal(Workplace(), "run model.cpp --set bach=3", 2, {"the model has no option named bach"});
}

TEST(BadData, RecordsOfJsonAreNotTakenForTextWithoutAWord) {
  const Workplace place;
  place.write("model.cpp", small_text_model);
  std::string records, texts;
  for (int i = 0; i < 40; ++i) records += "{\"text\": \"number " + std::to_string(i) + "\"}\n", texts += "{ a text }\n";
  place.write("data.jsonl", records);
  place.write("data.txt", texts);
  const std::string run = "run model.cpp --cluster c.toml --sample 0 --steps 1 --data ";
  EXPECT_THAT(place.run(run + "data.jsonl").err, HasSubstr("data.jsonl holds records of JSON"));
  // A list of records, and records behind other files of a folder.
  place.write("list.json", "[\n  " + everywhere(records, "}\n", "},\n  ") + "{}]\n");
  EXPECT_THAT(place.run(run + "list.json").err, HasSubstr("list.json holds records of JSON"));
  std::filesystem::create_directory(place.folder() / "several");
  place.write("several/a.txt", texts);
  place.write("several/b.jsonl", records);
  place.write("several/c.json", "[" + everywhere(records, "}\n", "},\n") + "{}]\n");
  EXPECT_THAT(place.run(run + "several").err, HasSubstr("several/b.jsonl and 1 other file hold records of JSON"));
  EXPECT_THAT(place.run(run + "data.txt").err, Not(HasSubstr("records of JSON")));
}

TEST(BadCluster, EachMistakeNamesItsPlace) {
  const Workplace place;
  place.write("key.toml", replaced(small_cluster, "memory =", "memry ="));
  expect_refusal(place, "run model.cpp --cluster key.toml", 3,
                 {"key.toml:7:1: error: [host[0].device[0]] unknown key \"memry\"", "did you mean \"memory\"?"});
  place.write("negative.toml", replaced(small_cluster, "\"5 GB/s\"", "-5"));
  expect_refusal(place, "plan model.cpp --cluster negative.toml", 3,
                 {"negative.toml:3:24: error: [host[0].inside] bandwidth is negative"});
  place.write("empty.toml", "");
  expect_refusal(place, "plan model.cpp --cluster empty.toml", 3,
                 {"empty.toml: error: [cluster] the cluster has no device"});
  place.write("twice.toml", replaced(small_cluster, "slow", "fast"));
  expect_refusal(place, "plan model.cpp --cluster twice.toml", 3,
                 {"twice.toml:10:8: error:", "there are two devices with the name \"fast\""});
  expect_refusal(place, "plan model.cpp --cluster nothing.toml", 3,
                 {"nothing.toml: error: cannot read the cluster file"});
}

TEST(BadCluster, TooLittleMemoryIsInfeasible) {
  const Workplace place;
  place.write("model.cpp", replaced(replaced(small_model, "{6, 16}", "{6, 1000000}"), "{16, 3}", "{1000000, 3}"));
  place.write("c.toml", replaced(replaced(small_cluster, "1 GiB", "100 KiB"), "1 GiB", "100 KiB"));
  expect_refusal(place, "plan model.cpp --cluster c.toml -o plan.json", 4, {"error:"});
  EXPECT_FALSE(place.exists("plan.json"));
}

/// Options of a plan are read before its hash can be compared.
TEST(BadPlanOptions, ThatAskForAHugeModelEndSoon) {
  const Workplace place;
  place.write("model.cpp", replaced(small_model, "Tensor w2",
                                    "for (int64_t i = option(\"layers\", 1); i > 0; --i) h = h + 1.0;\n  Tensor w2"));
  ASSERT_EQ(place.run("plan model.cpp --cluster c.toml -o plan.json").code, 0);
  const std::string plan = place.read("plan.json");
  const size_t at = plan.find("\"layers\"");
  ASSERT_NE(at, std::string::npos);
  place.write("huge.json", plan.substr(0, at) + replaced(plan.substr(at), "\"1\"", "\"100000000\""));
  expect_refusal(place, "verify model.cpp huge.json", 3, {"the model grows beyond what the plan can be of"});
}

TEST(BadModel, TooLargeForAnyDeviceIsToldBeforeDataAreMade) {
  const Workplace place;
  place.write("model.cpp", replaced(replaced(small_model, "6, 3)", "1000000, 1000000)"), "{6, 16}", "{1000000, 16}"));
  place.write("model.cpp", replaced(place.read("model.cpp"), "{16, 3}", "{16, 1000000}"));
  place.write("c.toml", replaced(replaced(small_cluster, "1 GiB", "1 MiB"), "1 GiB", "1 MiB"));
  expect_refusal(place, "run model.cpp --cluster c.toml", 4, {"error:"});
}

/// Makes plan.json with the small model and cluster.
class BadPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome outcome = place.run("plan model.cpp --cluster c.toml -o plan.json");
    ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    good = place.read("plan.json");
  }
  Workplace place;
  std::string good;
};

TEST_F(BadPlan, OfAnotherModel) {
  place.write("other.cpp", replaced(small_model, "{6, 16}", "{6, 17}"));
  place.write("other.cpp", replaced(place.read("other.cpp"), "{16, 3}", "{17, 3}"));
  for (const char* command : {"run", "verify", "inspect"}) {
    const std::string arguments = std::string(command) + " other.cpp " +
                                  (command == std::string("run") ? "--cluster c.toml --plan " : "") + "plan.json";
    expect_refusal(place, arguments, 3,
                   {"plan.json:4: error: [plan.model] the plan was made for another model", "expected: \"model.cpp\""});
  }
}

TEST_F(BadPlan, OfAnotherModelWithOptionsOfItsOwn) {
  place.write("other.cpp", replaced(small_model, "option(\"batch\"", "option(\"rows\""));
  expect_refusal(
      place, "verify other.cpp plan.json", 3,
      {"plan.json: error: [plan] the plan was made for another model", "a plan of other.cpp", "the option batch="});
}

TEST_F(BadPlan, OfOtherOptions) {
  expect_refusal(place, "run model.cpp --cluster c.toml --plan plan.json --batch 24", 3,
                 {"or for other options of this one"});
}

TEST_F(BadPlan, OfAnotherCluster) {
  place.write("d.toml", replaced(small_cluster, "30 GFLOP/s", "20 GFLOP/s"));
  expect_refusal(place, "run model.cpp --cluster d.toml --plan plan.json", 3,
                 {"d.toml: error: [plan] the plan was made for another cluster"});
}

TEST_F(BadPlan, Truncated) {
  place.write("plan.json", good.substr(0, good.size() / 2));
  expect_refusal(place, "verify model.cpp plan.json", 3, {"plan.json:", "[plan] not valid JSON"});
  EXPECT_EQ(place.read("plan.json"), good.substr(0, good.size() / 2)) << "the plan file was changed";
}

TEST_F(BadPlan, BrokenByHand) {
  place.write("plan.json", replaced(good, "\"op\": \"", "\"op\": \"x"));
  expect_refusal(place, "verify model.cpp plan.json", 3, {"plan.json:", "unknown instruction \"x"});
}

TEST_F(BadPlan, MissingFile) {
  expect_refusal(place, "verify model.cpp nothing.json", 3, {"nothing.json: error: cannot read the plan file"});
}

TEST_F(BadPlan, HostileFile) {
  place.write("plan.json", std::string(20'000'000, '['));
  expect_refusal(place, "verify model.cpp plan.json", 3,
                 {"plan.json:1:33: error: [plan] nested deeper than 32 levels"});
}

TEST_F(BadPlan, RankThatDoesNotExist) {
  expect_refusal(place, "inspect model.cpp plan.json --rank 2", 2,
                 {"[--rank] the plan has no such device", "expected: a number from 0 to "});
}

TEST_F(BadPlan, FailedWritingLeavesWhatWasThere) {
  place.write("kept/plan.json/file", "");
  std::filesystem::create_directories(place.folder() / "kept" / "plan.json");
  expect_refusal(place, "plan model.cpp --cluster c.toml -o kept/plan.json", 1,
                 {"kept/plan.json: error: cannot write the plan file"});
  EXPECT_TRUE(std::filesystem::is_directory(place.folder() / "kept" / "plan.json"));
}

TEST_F(BadPlan, WrongPlanIsRefutedAndNotRun) {
  // The new contents of w1 become the old ones: well-formed, and a model that does not learn.
  const auto value_before = [&](const std::string& tail) {  // ..."value": "NAME", tail
    const size_t end = good.find(tail), begin = good.rfind('"', end - 1) + 1;
    return good.substr(begin, end - begin);
  };
  const std::string old_value = value_before("\", \"node\": \"w1\"");
  const size_t target = good.find("{\"target\": \"w1\"");
  ASSERT_NE(target, std::string::npos);
  const std::string line = good.substr(target, good.find('}', target) + 1 - target);
  place.write("plan.json", replaced(good, line, "{\"target\": \"w1\", \"value\": \"" + old_value + "\"}"));
  const Outcome verified = place.run("verify model.cpp plan.json");
  EXPECT_EQ(verified.code, 5) << verified.out << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("refuted: "));
  const Outcome run = place.run("run model.cpp --cluster c.toml --plan plan.json --steps 2");
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("is not proved to compute the model, so it is not run"));
  EXPECT_THAT(run.out, Not(HasSubstr("samples/s")));
}

const char* const text_model = R"(#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [bytes, next] = text_next_byte(option("batch", 4), 8);
  Tensor table = parameter("table", {256, 4}, normal(0.1));
  Tensor w = parameter("w", {32, 256}, normal(0.1));
  minimize(cross_entropy(matmul(reshape(embedding(table, bytes), {4, 32}), w), next), SGD{});
}
)";

TEST(BadData, MissingFileOrTooShort) {
  const Workplace place;
  place.write("model.cpp", text_model);
  expect_refusal(place, "run model.cpp --cluster c.toml --steps 1 --data nothing.txt", 3, {"nothing.txt: error:"});
  place.write("short.txt", "abc");
  expect_refusal(place, "run model.cpp --cluster c.toml --steps 1 --data short.txt", 3,
                 {"short.txt: error:", "9 bytes"});
}

TEST(BadData, IsToldBeforePlanning) {
  const Workplace place;
  place.write("model.cpp", text_model);
  const Outcome outcome = place.run("run model.cpp --cluster c.toml --steps 1 --data nothing.txt --times");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("differentiate"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("synthesize")));
}

/// A plan that is not proved is shown and run all the same, but not one that reads what is not there.
TEST_F(BadPlan, WhoseOperandsAreOtherTensorsIsNotGenerated) {
  const std::string& plan = good;
  const size_t next = plan.find("\"node\": \"w2.next\""), from = plan.find("\"from\": [", next);
  const size_t comma = plan.find(", ", from), end = plan.find(']', from);
  ASSERT_LT(comma, end) << plan;
  const size_t loss = plan.find("\"loss\": ") + 8;
  place.write("bad.json",
              plan.substr(0, comma + 2) + plan.substr(loss, plan.find('\n', loss) - loss) + plan.substr(end));
  for (const char* command :
       {"inspect model.cpp bad.json", "run model.cpp --plan bad.json --cluster c.toml --unverified"})
    expect_refusal(place, command, 3,
                   {"bad.json: error: [plan] no program can be generated of the plan: compute of w2.next@",
                    "is a f32[]", "a f32[16,3]", "ask `hetsynth verify`"});
}

}  // namespace
}  // namespace hetsynth::testing
