// Plan files: the layout, exact round trips, and one message per way to break a file by hand.
#include "dsl/spmd/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "dsl/base/file.h"
#include "tests/support/golden.h"
#include "tests/support/plan_fixture.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Program& reference() {
  static const Program program = testing::plan_test_program();
  return program;
}

const std::string& good() {
  static const std::string json = plan_to_json(testing::plan_test_plan(reference()), reference());
  return json;
}

std::string replaced(const std::string& from, const std::string& to) {
  const size_t at = good().find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return good().substr(0, at) + to + good().substr(at + from.size());
}

std::string refusal(const std::string& json) {
  try {
    plan_from_json(json, "p.json", reference());
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::invalid_input);
    return error.what();
  }
  return "";
}

TEST(Plan, HoldsNoNulByte) {
  const size_t end = good().find('\n');
  for (const std::string& bad : {good() + std::string(1, '\0'), good() + std::string(1, '\0') + "more"})
    EXPECT_THAT(refusal(bad), HasSubstr("the file holds a NUL byte, at byte " + std::to_string(good().size())));
  EXPECT_THAT(refusal(good().substr(0, end + 1) + std::string(1, '\0') + good().substr(end + 1)),
              HasSubstr("p.json:2: error: [plan] the file holds a NUL byte"));
}

TEST(Plan, LayoutIsReadable) {
  Plan plan = testing::plan_test_plan(reference());
  plan.tool_version = "1.2.3", plan.model_hash = "m", plan.cluster_hash = "c";
  testing::expect_golden("plan.json", plan_to_json(plan, reference()));
}

TEST(Plan, RoundTripIsExact) {
  const Plan plan = testing::plan_test_plan(reference());
  const Plan again = plan_from_json(good(), "p.json", reference());
  EXPECT_EQ(again.program, plan.program);
  EXPECT_EQ(again.ratios, plan.ratios);
  EXPECT_EQ(again.devices, plan.devices);
  EXPECT_EQ(again.prediction.devices[1].idle_seconds, 1e-4);
  EXPECT_EQ(plan_to_json(again, reference()), good());
}

/// Files from before the step as it unfolds was the word of record: it stood in their trials, beside the sum.
TEST(Plan, EarlierPredictionsAreRead) {
  Plan plan = testing::plan_test_plan(reference());
  Trial trial;
  trial.mesh = {2}, trial.devices = "fast, slow", trial.device_count = 2, trial.outcome = "taken";
  trial.step_seconds = 2e-3, trial.compute_seconds = 1e-3, trial.communication_seconds = 1e-3;
  plan.prediction.considered = {trial};
  std::string json = plan_to_json(plan, reference());
  const auto replace = [&](const std::string& from, const std::string& to) {
    const size_t at = json.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    json.replace(at, from.size(), to);
  };
  replace("    \"objective_seconds\": 0.0016,\n", "");
  replace(", \"hidden_seconds\": 5e-05", "");
  replace("\"hideable_seconds\": 0, \"latency_seconds\": 0", "\"latency_seconds\": 0, \"timeline_seconds\": 0.0015");
  const Prediction read = plan_from_json(json, "p.json", reference()).prediction;
  EXPECT_EQ(read.step_seconds, 1.5e-3);
  EXPECT_EQ(read.objective_seconds, 1.5e-3);
  EXPECT_EQ(read.hidden_weight, 1);
  EXPECT_EQ(read.floor_seconds, 0);
  EXPECT_EQ(read.devices[0].hidden_seconds, 0);
  EXPECT_EQ(read.considered[0].step_seconds, 1.5e-3);
  EXPECT_EQ(read.considered[0].added_seconds(), 2e-3);
}

TEST(Plan, EveryInstructionRoundTrips) {
  const Plan plan = testing::plan_test_detour(reference());
  const std::string json = plan_to_json(plan, reference());
  const Plan again = plan_from_json(json, "p.json", reference());
  EXPECT_EQ(again.program, canonical(plan.program));
  EXPECT_EQ(plan_to_json(again, reference()), json);
}

TEST(Plan, CanonicalNumbersValuesByDefinitionAndDropsUnusedFields) {
  Plan plan = testing::plan_test_plan(reference());
  const SpmdProgram before = plan.program;
  std::swap(plan.program.values[2], plan.program.values[5]);  // y and w2 change their numbers
  for (Instruction& instruction : plan.program.instructions) {
    for (ValueId* id : {&instruction.result}) *id = *id == 2 ? 5 : *id == 5 ? 2 : *id;
    for (ValueId& id : instruction.operands) id = id == 2 ? 5 : id == 5 ? 2 : id;
    instruction.to_dim = 3;
  }
  plan.program.finals[0].second = 2;
  EXPECT_NE(plan.program, before);
  EXPECT_EQ(canonical(plan.program), before);
  EXPECT_EQ(plan_from_json(plan_to_json(plan, reference()), "p.json", reference()).program, before);
}

TEST(Plan, AValueMayClaimAnotherTensor) {
  Plan plan = testing::plan_test_plan(reference());
  plan.program.values[5].node = 1;  // the new w claimed to be the old one: for the verifier to refute
  const std::string json = plan_to_json(plan, reference());
  EXPECT_THAT(json, HasSubstr("\"of\": \"w\""));
  EXPECT_EQ(plan_from_json(json, "p.json", reference()).program, plan.program);
}

TEST(Plan, RemembersTheMemoryOfDevices) {
  Plan plan = testing::plan_test_plan(reference());
  plan.prediction.devices.resize(plan.devices.size());
  plan.prediction.devices[1].memory_limit_bytes = int64_t(16) << 30;
  const Plan again = plan_from_json(plan_to_json(plan, reference()), "p.json", reference());
  EXPECT_EQ(cluster_of(again).devices[1].memory_bytes, int64_t(16) << 30);
  plan.prediction.devices.clear();
  EXPECT_EQ(cluster_of(plan).devices[1].memory_bytes, 0);
}

TEST(Plan, RemembersTheEpiloguesOfDevices) {
  Plan plan = testing::plan_test_plan(reference());
  plan.devices[1].epilogues = {{ProductEpilogue::bias, DType::bf16}, {ProductEpilogue::bias_gelu, DType::f32}};
  const std::string json = plan_to_json(plan, reference());
  EXPECT_THAT(json, HasSubstr("\"epilogues\": [\"bf16 bias\", \"bias_gelu\"]}"));
  const Plan again = plan_from_json(json, "p.json", reference());
  EXPECT_EQ(again.devices, plan.devices);
  EXPECT_EQ(cluster_of(again).devices[1].epilogues(), *plan.devices[1].epilogues);
  EXPECT_EQ(cluster_of(again).devices[0].epilogues(), estimated_fused_products());
  plan.devices[1].attention = AttentionBy::cudnn;
  const std::string by_cudnn = plan_to_json(plan, reference());
  EXPECT_THAT(by_cudnn, HasSubstr("\"attention\": \"cudnn\"}"));
  const Plan read = plan_from_json(by_cudnn, "p.json", reference());
  EXPECT_EQ(cluster_of(read).devices[1].attention(), AttentionBy::cudnn);
  EXPECT_EQ(cluster_of(read).devices[0].attention(), AttentionBy::generated);
  std::string wrong = json;
  wrong.replace(wrong.find("bf16 bias"), 9, "bf16 bios");
  EXPECT_THAT(refusal(wrong), HasSubstr("epilogue of a product"));
}

TEST(Plan, InfinityIsNull) {
  Plan plan = testing::plan_test_plan(reference());
  plan.prediction.baselines[0].step_seconds = std::numeric_limits<double>::infinity();
  const std::string json = plan_to_json(plan, reference());
  EXPECT_THAT(json, HasSubstr("\"step_seconds\": null, \"feasible\""));
  EXPECT_TRUE(std::isinf(plan_from_json(json, "p.json", reference()).prediction.baselines[0].step_seconds));
}

TEST(Plan, RemembersWhatWasConsidered) {
  Plan plan = testing::plan_test_plan(reference());
  Trial found{{2}, "fast, slow", 2, 1e-3, 1.5e-3, 1.2e-3, 3e-4, 1e-4, 1.4e-3, "taken"};
  Trial none;
  none.mesh = {1, 2};
  none.devices = "fast, slow";
  none.device_count = 2;
  none.outcome = "does not fit";
  plan.prediction.considered = {found, none};
  const std::string json = plan_to_json(plan, reference());
  const Plan read = plan_from_json(json, "p.json", reference());
  EXPECT_EQ(read.prediction.considered, plan.prediction.considered);
  EXPECT_EQ(plan_to_json(read, reference()), json);
}

TEST(Plan, PredictionsMayBeCutOff) {
  const std::string json = good().substr(0, good().find(",\n  \"prediction\"")) + "}";
  EXPECT_EQ(plan_from_json(json, "p.json", reference()).program, testing::plan_test_plan(reference()).program);
}

TEST(Plan, NodesOfOneNameAreToldApartByNumber) {
  Program twins = reference();
  twins.nodes[4].name = "y";
  Plan plan = testing::plan_test_plan(twins);
  const std::string json = plan_to_json(plan, twins);
  EXPECT_THAT(json, HasSubstr("\"node\": \"y%4\""));
  EXPECT_EQ(plan_from_json(json, "p.json", twins).program, plan.program);
}

TEST(Plan, FactorsOfOneNameAreToldApartByNumber) {
  const std::string json = replaced("\"node\": \"w2\", \"split\": {\"dp\": \"whole\"}",
                                    "\"node\": \"w2\", \"split\": {\"dp\": \"split(#0, inner)\"}");
  EXPECT_EQ(plan_from_json(json, "p.json", reference()).program.instructions[3].splits[0], (Split{0, 1}));
}

struct BrokenPlan {
  std::string name, from, to;
  std::vector<std::string> message;  ///< parts that the message must have, the place first
};

class WrongPlan : public ::testing::TestWithParam<BrokenPlan> {};

TEST_P(WrongPlan, IsRefusedWithItsPlace) {
  const std::string message = refusal(replaced(GetParam().from, GetParam().to));
  ASSERT_FALSE(message.empty()) << "was taken";
  EXPECT_THAT(message, StartsWith(GetParam().message[0]));
  for (const std::string& part : GetParam().message) EXPECT_THAT(message, HasSubstr(part));
}

const std::string reduce_head =
    "{\"op\": \"all_reduce\", \"result\": \"loss@R\", \"axis\": \"dp\", \"reduce\": \"sum\", \"realisation\": "
    "\"native\"";

INSTANTIATE_TEST_SUITE_P(
    Each, WrongPlan,
    ::testing::ValuesIn(std::vector<BrokenPlan>{
        {"BucketOfAComputation",
         "{\"op\": \"compute\", ",
         "{\"op\": \"compute\", \"bucket\": 0, ",
         {"p.json:", "unknown member \"bucket\""}},
        {"NegativeBucket", reduce_head, reduce_head + ", \"bucket\": -1", {"p.json:", "the number is out of range"}},
        {"NewerSchema",
         "\"schema\": 1",
         "\"schema\": 2",
         {"p.json:2: error: [plan.schema] the plan was written by a newer hetsynth", "expected: schema 1 or older"}},
        {"SchemaOfWrongType",
         "\"schema\": 1",
         "\"schema\": \"1\"",
         {"p.json:2: error: [plan.schema] wrong type", "expected: an integer", "found:    a string"}},
        {"HugeSchema",
         "\"schema\": 1",
         "\"schema\": 99999999999999999999",
         {"p.json:2: error: [plan.schema] the number is out of range"}},
        {"OtherModel",
         "\"hash\": \"",
         "\"hash\": \"0",
         {"p.json:4: error: [plan.model] the plan was made for another model, or for other options of this one",
          "expected: \"model.cpp\", hash \"0"}},
        {"UnknownMember",
         "\"tool\"",
         "\"tol\": 1, \"tool\"",
         {"p.json:3: error: [plan.tol] unknown member \"tol\"", "did you mean \"tool\"?"}},
        {"MissingMember",
         "\"loss\": \"loss@R\"",
         "\"los\": \"loss@R\"",
         {"p.json:14: error: [plan.decisions] the member \"loss\" is missing"}},
        {"TwiceTheSameMember",
         "\"loss\": \"loss@R\"",
         "\"loss\": \"loss@R\", \"loss\": 1",
         {"p.json:", "[plan] the member \"loss\" stands twice"}},
        {"DeviceTwice",
         "{\"name\": \"slow\"",
         "{\"name\": \"fast\"",
         {"p.json:12: error: [plan.devices[1]] the device \"fast\" stands twice"}},
        {"UnknownKindOfDevice",
         "\"kind\": \"cpu\"",
         "\"kind\": \"gpu\"",
         {"p.json:11:", "unknown kind of device \"gpu\""}},
        {"NewlineInDeviceName",
         "\"slow\"",
         "\"slow\\n#error\"",
         {"p.json:12: error: [plan.devices[1].name] not a usable text"}},
        {"BackslashInCause",
         "over the rows",
         "over the rows\\\\",
         {"p.json:28: error: [plan.decisions.instructions[2].cause] not a usable text"}},
        {"MeshTooSmall",
         "\"size\": 2",
         "\"size\": 1",
         {"p.json:15: error: [plan.decisions.mesh] the mesh does not fit the devices", "expected: 2 ranks"}},
        {"MeshTooLarge",
         "\"size\": 2",
         "\"size\": 9000000000",
         {"p.json:15:", "the number is out of range", "expected: 1 to 65536"}},
        {"MeshOverflows",
         "[{\"axis\": \"dp\", \"size\": 2}]",
         "[{\"axis\": \"dp\", \"size\": 65536}, {\"axis\": \"tp\", \"size\": 65536}]",
         {"p.json:15:", "the mesh has too many ranks"}},
        {"AxisTwice",
         "[{\"axis\": \"dp\", \"size\": 2}]",
         "[{\"axis\": \"dp\", \"size\": 2}, {\"axis\": \"dp\", \"size\": 1}]",
         {"p.json:15:", "the name \"dp\" of the axis is empty or taken"}},
        {"RatioAboveOne",
         "[[0.6666666666666666",
         "[[1.5",
         {"p.json:16: error: [plan.decisions.ratios[0][0]] the number is out of range"}},
        {"RatioMissing",
         ", 0.3333333333333333",
         "",
         {"p.json:16: error: [plan.decisions.ratios[0]] wrong number of shares", "expected: 2, the size of the axis"}},
        {"TableDoesNotCover",
         "[0, 4, 6]",
         "[0, 4, 5]",
         {"p.json:18: error: [plan.decisions.tables[0].bounds] the table does not cover its extent",
          "the last bound is 6", "found:    5"}},
        {"TableBeginsLate",
         "[0, 4, 6]",
         "[1, 4, 6]",
         {"p.json:18: error: [plan.decisions.tables[0].bounds[0]] the first bound is not 0"}},
        {"TableDecreases",
         "[0, 0, 4]",
         "[0, 4, 2]",
         {"p.json:19: error: [plan.decisions.tables[1].bounds[2]] the bounds decrease"}},
        {"TableExceeds", "[0, 4, 6]", "[0, 7, 6]", {"p.json:18:", "the number is out of range", "expected: 0 to 6"}},
        {"TableNegative", "[0, 4, 6]", "[0, -1, 6]", {"p.json:18:", "the number is out of range"}},
        {"TableTooShort",
         "[0, 4, 6]",
         "[0, 6]",
         {"p.json:18:", "the table has the wrong number of bounds", "expected: 3"}},
        {"TableOfFractions",
         "[0, 4, 6]",
         "[0, 4.5, 6]",
         {"p.json:18:", "wrong type", "expected: an integer", "found:    a number"}},
        {"TableExtentZero", "\"extent\": 6", "\"extent\": 0", {"p.json:18:", "the number is out of range"}},
        {"TableNameTaken", "\"inner\"", "\"rows\"", {"p.json:19:", "the name \"rows\" of the table is empty or taken"}},
        {"TableOnUnknownAxis",
         "\"name\": \"rows\", \"axis\": \"dp\"",
         "\"name\": \"rows\", \"axis\": \"pd\"",
         {"p.json:18:", "unknown mesh axis \"pd\"", "did you mean \"dp\"?"}},
        {"TableDoesNotDivide",
         "\"extent\": 6, \"bounds\": [0, 4, 6]",
         "\"extent\": 5, \"bounds\": [0, 4, 5]",
         {"p.json:22: error: [plan.decisions.leaves[0].placement.dp] table \"rows\" does not fit dimension 0 of \"x\"",
          "expected: an extent that divides 6", "found:    5"}},
        {"UnknownLeaf",
         "\"node\": \"x\"",
         "\"node\": \"xx\"",
         {"p.json:22:", "the model has no tensor \"xx\"", "did you mean \"x\"?"}},
        {"LeafIsNoLeaf",
         "\"node\": \"x\"",
         "\"node\": \"y\"",
         {"p.json:22:", "\"y\" is the result of an operator, not a leaf"}},
        {"ParameterTwice",
         "{\"value\": \"w@R\"",
         "{\"value\": \"w@2\", \"node\": \"w\", \"placement\": {\"dp\": \"replicated\"}}, {\"value\": \"w@R\"",
         {"p.json:23:", "parameter \"w\" is bound twice"}},
        {"ValueTwice",
         "\"value\": \"w@R\"",
         "\"value\": \"x@S0\"",
         {"p.json:23:", "the value \"x@S0\" is defined twice"}},
        {"OddPlacement", "\"sharded(0, rows)\"", "\"S0\"", {"p.json:22:", "not a placement", "found:    \"S0\""}},
        {"PlacementOfNoDimension",
         "\"sharded(0, rows)\"",
         "\"sharded(2, rows)\"",
         {"p.json:22:", "\"x\" has no dimension \"2\"", "expected: a dimension of f32[6,4]"}},
        {"PlacementByNoTable",
         "\"sharded(0, rows)\"",
         "\"sharded(0, row)\"",
         {"p.json:22:", "unknown table \"row\"", "did you mean \"rows\"?"}},
        {"PlacementByOddReduction",
         "\"partial(sum)\"",
         "\"partial(summ)\"",
         {"p.json:27:", "unknown reduction \"summ\"", "did you mean \"sum\"?"}},
        {"PlacementOfOtherAxis",
         "\"placement\": {\"dp\": \"sharded",
         "\"placement\": {\"tp\": \"sharded",
         {"p.json:22:", "the member \"dp\" is missing"}},
        {"UnknownInstruction",
         "\"all_reduce\"",
         "\"allreduce\"",
         {"p.json:28: error: [plan.decisions.instructions[2].op] unknown instruction \"allreduce\"",
          "did you mean \"all_reduce\"?"}},
        {"FieldOfOtherInstruction",
         reduce_head,
         reduce_head + ", \"root\": 0",
         {"p.json:28: error: [plan.decisions.instructions[2].root] unknown member \"root\""}},
        {"FieldMissing",
         ", \"reduce\": \"sum\"",
         "",
         {"p.json:28: error: [plan.decisions.instructions[2]] the member \"reduce\" is missing"}},
        {"UnknownRealisation",
         "\"native\"",
         "\"natve\"",
         {"p.json:28:", "unknown realisation \"natve\"", "did you mean \"native\"?"}},
        {"OperandMissing",
         "[\"x@S0\", \"w@R\"]",
         "[\"x@S0\"]",
         {"p.json:26: error: [plan.decisions.instructions[0].from] wrong number of operands",
          "expected: 2, the inputs of \"y\""}},
        {"OperandTooMany",
         "[\"loss@P+\"]",
         "[\"loss@P+\", \"loss@P+\"]",
         {"p.json:28:", "wrong number of operands", "expected: 1"}},
        {"OperandUndefined",
         "[\"loss@P+\"]",
         "[\"los@P+\"]",
         {"p.json:28:", "the value \"los@P+\" is not defined before it is used", "did you mean \"loss@P+\"?"}},
        {"OperandLater",
         "[\"x@S0\", \"w@R\"]",
         "[\"x@S0\", \"w2@R\"]",
         {"p.json:26:", "the value \"w2@R\" is not defined before it is used"}},
        {"OddSplit", "\"split(i, rows)\"", "\"i by rows\"", {"p.json:26:", "not a split"}},
        {"SplitOfNoFactor",
         "\"split(i, rows)\"",
         "\"split(z, rows)\"",
         {"p.json:26:", "\"y\" has no factor \"z\"", "expected: one of \"i\", \"j\", \"k\""}},
        {"SplitDoesNotDivide",
         "\"split(i, rows)\"",
         "\"split(j, rows)\"",
         {"p.json:26:", "table \"rows\" does not fit factor j"}},
        {"ComputeOfLeaf",
         "\"node\": \"y\"",
         "\"node\": \"w\"",
         {"p.json:26:", "\"w\" is a leaf: there is nothing to compute"}},
        {"FinalMissing",
         "{\"target\": \"w\", \"value\": \"w2@R\"}",
         "",
         {"p.json:31: error: [plan.decisions.finals] the new contents of \"w\" are missing"}},
        {"FinalOfNoParameter",
         "\"target\": \"w\"",
         "\"target\": \"x\"",
         {"p.json:32:", "\"x\" is not updated by the step"}},
        {"LossIsNull",
         "\"loss\": \"loss@R\"",
         "\"loss\": null",
         {"p.json:34: error: [plan.decisions.loss] wrong type", "found:    null"}},
        {"PredictionNegative",
         "\"step_seconds\": 0.0015",
         "\"step_seconds\": -1",
         {"p.json:37: error: [plan.prediction.step_seconds] the number is out of range"}},
        {"PredictionOfThreeDevices",
         "    \"devices\": [\n      {",
         "    \"devices\": [\n      {\"device\": \"a\", \"share\": 0, \"compute_seconds\": 0, "
         "\"communication_seconds\": 0, \"idle_seconds\": 0, \"memory_bytes\": 0, \"memory_limit_bytes\": 0},\n      {",
         {"p.json:41: error: [plan.prediction.devices] wrong number of devices", "expected: 2", "found:    3"}},
        {"NumberOverflows", "0.0015", "1e999", {"p.json:37:", "[plan] not valid JSON: number overflow"}},
        {"BadUtf8", "\"fast\"", "\"\xff\"", {"p.json:11:", "[plan] not valid JSON"}},
        {"Comma",
         "\"bounds\": [0, 4, 6]",
         "\"bounds\": [0, 4, 6,]",
         {"p.json:18:", "[plan] not valid JSON: syntax error"}},
        {"NotANumber", "0.0015", "NaN", {"p.json:37:", "[plan] not valid JSON"}},
        {"OptionsAreNoObject",
         "{\"width\": \"8\"}",
         "[]",
         {"p.json:7: error: [plan.model.options] wrong type", "expected: an object", "found:    an array"}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(Plan, EveryTruncationIsRefused) {
  for (size_t length = 0; length + 2 < good().size(); ++length) {
    const std::string message = refusal(good().substr(0, length));
    ASSERT_THAT(message, HasSubstr("[plan] not valid JSON")) << "cut to " << length;
  }
}

TEST(Plan, HostileDocumentsAreRefused) {
  EXPECT_THAT(refusal(std::string(10'000'000, '[')),
              StartsWith("p.json:1:33: error: [plan] nested deeper than 32 levels"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  EXPECT_THAT(refusal(deep), HasSubstr("nested deeper than 32 levels"));
  std::string many = "[0";
  for (int i = 0; i < 2'000'000; ++i) many += ",0";
  EXPECT_THAT(refusal(many), HasSubstr("more than 2000000 values"));
  EXPECT_THAT(refusal(std::string((64 << 20) + 1, ' ')), HasSubstr("longer than 67108864 bytes"));
  EXPECT_THAT(refusal("\"" + std::string(1'000'000, 'x')), HasSubstr("not valid JSON"));
  EXPECT_LT(refusal("\"" + std::string(1'000'000, 'x')).size(), 400u);
  EXPECT_THAT(refusal(""), HasSubstr("p.json:1"));
  EXPECT_THAT(refusal("null"), HasSubstr("wrong type"));
}

/// A folder of its own, gone at the end.
struct TemporaryFolder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("hetsynth_plan_" + std::to_string(::getpid()));
  TemporaryFolder() { std::filesystem::create_directories(path); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

TEST(Plan, SavesAndLoads) {
  const TemporaryFolder folder;
  const std::string path = folder.path / "plan.json";
  std::ofstream(path) << "somebody's";
  EXPECT_THROW(save_plan(path, testing::plan_test_plan(reference()), reference()), UserError);
  EXPECT_EQ(read_file(path, "file", 1 << 20), "somebody's");
  std::ofstream(path) << good() << "\n\n";  // another plan
  save_plan(path, testing::plan_test_plan(reference()), reference());
  EXPECT_EQ(read_file(path, "plan", 1 << 20), good());
  EXPECT_EQ(load_plan(path, reference()).program, testing::plan_test_plan(reference()).program);
  ASSERT_EQ(read_plan_options(path).size(), 1u);
  EXPECT_EQ(read_plan_options(path)[0].value, "8");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1) << "a temporary file was left";
}

TEST(Plan, AFailedSaveLeavesWhatWasThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path / "plan.json";
  std::filesystem::create_directory(path);  // a folder stands where the file should go
  EXPECT_THROW(save_plan(path, testing::plan_test_plan(reference()), reference()), UserError);
  EXPECT_TRUE(std::filesystem::is_directory(path));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
  EXPECT_THROW(save_plan(folder.path / "no" / "plan.json", testing::plan_test_plan(reference()), reference()),
               UserError);
}

TEST(Plan, MissingFileIsNamed) {
  try {
    load_plan("/nonexistent/plan.json", reference());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(),
                StartsWith("/nonexistent/plan.json: error: cannot read the plan file: No such file or directory"));
  }
}

TEST(Plan, OfAnotherClusterIsRefused) {
  const Plan plan = testing::plan_test_plan(reference());
  Cluster cluster = testing::plan_test_cluster();
  EXPECT_NO_THROW(check_plan_cluster(plan, cluster));
  cluster.devices[1].memory_bytes /= 2;
  cluster.name = "other";
  try {
    check_plan_cluster(plan, cluster);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), StartsWith("pair.toml: error: [plan] the plan was made for another cluster"));
    EXPECT_THAT(error.what(), HasSubstr("found:    \"other\", 2 devices"));
  }
}

}  // namespace
}  // namespace hetsynth
