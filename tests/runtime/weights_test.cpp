// Parameters from files of other programs, and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "hetsynth/hetsynth.h"
#include "runtime/launch.h"
#include "runtime/training/checkpoint.h"
#include "runtime/weights/exported_weights.h"
#include "runtime/weights/initial_weights.h"
#include "runtime/weights/weight_sources.h"
#include "tests/runtime/plans.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;  // NOLINT: fixtures of other folders

/// Two experts' matrices in one tensor, heads with a dimension of their own, a vector.
Program small() {
  Trace trace("small.cpp");
  run_builder(trace, [] {
    auto [x, y] = synthetic_batch(6, 4, 3);
    Tensor q = parameter("h0.query", {4, 2, 3}, normal(0.5)), k = parameter("h0.key", {4, 2, 3}, normal(0.5));
    Tensor experts = parameter("experts", {2, 6, 3}, normal(0.5));
    Tensor h = reshape(einsum("bc,chd->bhd", x, q) * einsum("bc,chd->bhd", x, k), {6, 6});
    Tensor all = einsum("bf,efo->bo", h, experts) + parameter("bias", {3}, zeros());
    minimize(cross_entropy(all, y), AdamW{});
  });
  return differentiate(trace);
}

const char* const rules = R"(may_lack = ["net."]
ignore = ["net.mask.{i}"]
[tensors]
"h{i}.query" = { from = "net.block.{i}.qk", layout = "c h d -> (2 h d) c", part = 0 }
"h{i}.key" = { from = "net.block.{i}.qk", layout = "c h d -> (2 h d) c", part = 1 }
"experts" = { from = "net.expert.{e}.weight", layout = "e f o -> o f" }
"bias" = "net.out.bias"
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

class Weights : public ::testing::Test {
 protected:
  void SetUp() override {
    folder.write("rules.toml", rules);
    write("foreign.st", "net.", {12, 4});
  }
  /// Every number is another one.
  void write(const std::string& name, const std::string& prefix, const Shape& joined,
             const std::vector<TensorEntry>& more = {}) const {
    std::vector<TensorEntry> entries = {{prefix + "block.0.qk", {joined, DType::f32}},
                                        {prefix + "expert.0.weight", {{3, 6}, DType::f32}},
                                        {prefix + "expert.1.weight", {{3, 6}, DType::f32}},
                                        {prefix + "mask.0", {{5}, DType::f32}},
                                        {prefix + "out.bias", {{3}, DType::f32}}};
    entries.insert(entries.end(), more.begin(), more.end());
    write_safetensors(folder.path(name), entries, {}, [&](const std::string& tensor) {
      TensorType type;
      for (const TensorEntry& entry : entries)
        if (entry.name == tensor) type = entry.type;
      HostTensor out(type);
      for (size_t i = 0; i < out.as<float>().size(); ++i)
        out.as<float>()[i] = value(tensor.substr(prefix.size()), int64_t(i));
      return out;
    });
  }
  static float value(const std::string& tensor, int64_t i) { return float(tensor.size()) + float(i) / 64; }

  WeightMap map() const { return WeightMap::load(folder.path("rules.toml")); }
  std::string error_of_rules(const std::string& text) const {
    folder.write("wrong.toml", text);
    return error_of([&] { WeightMap::load(folder.path("wrong.toml")); });
  }
  static std::unique_ptr<Executor> executor(const Program& program) {
    const Cluster three = cpu_cluster({1, 2, 4});
    return launch(program, random_plan(program, three, {0.2, 0.5, 0.3}, 3).program, three,
                  {.executor = {.seed = 3, .threads = {1, false}}, .optimization = 0});
  }
  static HostTensor tensor(const Executor& executor, const std::string& name) {
    for (const Node& node : executor.reference().nodes)
      if (node.name == name) return executor.read(node.id);
    throw std::runtime_error("no " + name);
  }
  const TemporaryFolder folder;
};

TEST_F(Weights, LieWhereTheRulesSay) {
  const Program program = small();
  const auto ranks = executor(program);
  for (const std::string prefix : {"net.", ""}) {
    write("foreign.st", prefix, {12, 4});
    WeightFile file(folder.path("foreign.st"));
    const InitialWeights found = find_weights(program, file, map());
    EXPECT_EQ(found.taken.size(), 4u);
    EXPECT_TRUE(found.missing.empty());
    EXPECT_TRUE(found.left.empty()) << "the mask is ignored";
    take_weights(found, file, *ranks);
    const HostTensor key = tensor(*ranks, "h0.key"), experts = tensor(*ranks, "experts"), bias = tensor(*ranks, "bias");
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t d = 0; d < 3; ++d)
          EXPECT_EQ(key.as<float>()[size_t((c * 2 + h) * 3 + d)], value("block.0.qk", (6 + h * 3 + d) * 4 + c));
    for (int64_t e = 0; e < 2; ++e)
      for (int64_t f = 0; f < 6; ++f)
        for (int64_t o = 0; o < 3; ++o)
          EXPECT_EQ(experts.as<float>()[size_t((e * 6 + f) * 3 + o)], value("expert.0.weight", o * 6 + f));
    EXPECT_EQ(bias.as<float>()[2], value("out.bias", 2));
  }
}

TEST_F(Weights, CopiesStartAsWhatTheyAreCopiesOf) {
  Trace trace("copied.cpp");
  run_builder(trace, [] {
    auto [x, y] = synthetic_batch(6, 3, 3);
    Tensor bias = parameter("bias", {3}, zeros());
    Tensor copy = parameter("then.bias", {3}, zeros(), {.trainable = false});
    minimize(cross_entropy(x * copy + bias, y) + sum(parameter("now.bias", {3}, zeros())), AdamW{});
  });
  const Program program = differentiate(trace);
  folder.write("rules.toml", "copies = [\"then.\"]\n" + std::string(rules));
  WeightFile file(folder.path("foreign.st"));
  const InitialWeights found = find_weights(program, file, map());
  EXPECT_EQ(found.missing, std::vector<std::string>{"now.bias"});
  const auto ranks = executor(program);
  take_weights(found, file, *ranks);
  for (const char* name : {"bias", "then.bias"})
    EXPECT_EQ(tensor(*ranks, name).as<float>()[2], value("out.bias", 2)) << name;
  EXPECT_FALSE(map().place_of("then.bias")) << "an export has no copies";
  EXPECT_THAT(text(found, file), Not(HasSubstr("copies")));
  EXPECT_THAT(error_of_rules("copies = 3\n"), HasSubstr("a list of beginnings of names"));
}

/// A copy of what the file lacks starts by itself, and so does its original: the two may differ.
TEST_F(Weights, CopiesOfWhatTheFileLacksAreTold) {
  Trace trace("copied.cpp");
  run_builder(trace, [] {
    auto [x, y] = synthetic_batch(6, 3, 3);
    const auto linear = [&](const std::string& name) {
      Tensor bias = parameter(name + "bias", {3}, normal(1));
      Tensor head = parameter(name + "head", {3}, normal(1));
      Tensor tail = parameter(name + "tail", {3}, normal(1));
      return x * bias + head + tail;
    };
    Tensor now = linear(""), then = linear("then.");
    minimize(cross_entropy(now + then, y), AdamW{});
  });
  const Program program = differentiate(trace);
  folder.write("rules.toml", "copies = [\"then.\"]\n" + std::string(rules) + "\"head\" = \"net.head\"\n");
  WeightFile file(folder.path("foreign.st"));
  const InitialWeights found = find_weights(program, file, map());
  EXPECT_EQ(found.missing.size(), 4u);
  EXPECT_THAT(text(found, file),
              AllOf(HasSubstr("weights: 2 of 6 parameters"),
                    HasSubstr("\n  of these, copies of what the file lacks, which do not start as their "
                              "originals do: then.head of head, then.tail of tail\n")));
  // Another file may have them, whose rules know of no copies.
  folder.write("more.toml", "[tensors]\n\"head\" = \"net.head\"\n\"then.head\" = \"net.head\"\n");
  write_safetensors(folder.path("more.st"), {{"net.head", {{3}, DType::f32}}}, {}, [](const std::string&) {
    return HostTensor({{3}, DType::f32});
  });
  const WeightSources both(program, {folder.path("foreign.st"), folder.path("more.st")},
                           {folder.path("rules.toml"), folder.path("more.toml")});
  EXPECT_THAT(both.text(), HasSubstr("  of these, copies of what the file lacks, which do not start as their originals "
                                     "do: then.tail of tail\n"));
}

TEST_F(Weights, GoBackUnderTheSameRules) {
  const Program program = small();
  const auto ranks = executor(program);
  WeightFile file(folder.path("foreign.st"));
  take_weights(find_weights(program, file, map()), file, *ranks);
  save_checkpoint(folder.path("c.st"), *ranks, {.next_step = 0});
  SafetensorsFile checkpoint(folder.path("c.st"));
  const ExportedWeights exported = exported_weights(checkpoint, map());
  ASSERT_EQ(exported.tensors.size(), 4u);
  ExportedValues values(exported, [&](const std::string& name) { return checkpoint.read(name); });
  for (const ExportedWeights::Exported& one : exported.tensors) {
    SCOPED_TRACE(one.entry.name);
    EXPECT_EQ(one.entry.type, file.types().at(one.entry.name));
    EXPECT_EQ(values.value(one).bytes, file.read(one.entry.name).bytes);
  }
  EXPECT_EQ(exported.left.size(), 8u) << "two moments of each parameter";
}

TEST_F(Weights, ThatAreMissingOrLeftAreTold) {
  const Program program = small();
  folder.write("rules.toml", std::string(rules).substr(0, std::string(rules).find("\"bias\"")));
  write("foreign.st", "net.", {12, 4}, {{"net.pooler", {{2}, DType::f32}}});
  WeightFile file(folder.path("foreign.st"));
  const InitialWeights found = find_weights(program, file, map());
  EXPECT_THAT(found.missing, ElementsAre("bias"));
  EXPECT_THAT(found.left, ElementsAre("net.out.bias", "net.pooler"));
  EXPECT_THAT(text(found, file), AllOf(HasSubstr("weights: 3 of 4 parameters from foreign.st, 6 tensors"),
                                       HasSubstr("1 keeps its starting values: bias"),
                                       HasSubstr("left in the file: 2 tensors (net.out.bias, net.pooler)")));
  const auto ranks = executor(program);
  ranks->initialise();
  const HostTensor before = tensor(*ranks, "bias");
  take_weights(found, file, *ranks);
  EXPECT_EQ(tensor(*ranks, "bias").bytes, before.bytes);
}

/// A beginning that leaves no name of the model makes no copy of anything.
TEST_F(Weights, CopiesAreOfParametersOfTheModelAlone) {
  const Program program = small();
  for (const std::string beginning : {"b", "bi", ""}) {
    folder.write("rules.toml", "copies = [\"" + beginning + "\"]\n" +
                                   std::string(rules).substr(0, std::string(rules).find("\"bias\"")));
    const InitialWeights found = find_weights(program, WeightFile(folder.path("foreign.st")), map());
    EXPECT_THAT(found.copies, ::testing::IsEmpty()) << beginning;
  }
}

TEST_F(Weights, OfOneNameNeedNoRules) {
  const Program program = small();
  const auto ranks = executor(program);
  ranks->initialise();
  save_checkpoint(folder.path("c.st"), *ranks, {.next_step = 0});
  WeightFile file(folder.path("c.st"));
  EXPECT_EQ(find_weights(program, file, {}).taken.size(), 4u);
}

TEST_F(Weights, ThatDoNotFitAreRefused) {
  const Program program = small();
  const auto found = [&](const std::string& name, const WeightMap& rules_of) {
    return error_of([&] { find_weights(program, WeightFile(folder.path(name)), rules_of); });
  };
  EXPECT_THAT(found("foreign.st", {}), AllOf(HasSubstr("no parameter of the model is found in the file"),
                                             HasSubstr("h0.query"), HasSubstr("net.block.0.qk"), HasSubstr("--map")));
  write("other.st", "net.", {4, 12});
  EXPECT_THAT(found("other.st", map()), AllOf(HasSubstr("h0.query does not fit"), HasSubstr("f32[12,4]"),
                                              HasSubstr("f32[4,12]"), HasSubstr("weights_test.cpp")));
  write("wide.st", "net.", {2, 6, 4});
  EXPECT_EQ(found("wide.st", map()), "no error") << "neighbouring dimensions may be one";
  folder.write("rules.toml", with(rules, "e f o -> o f", "e f o -> f o"));
  EXPECT_THAT(found("foreign.st", map()), HasSubstr("experts does not fit"));
  folder.write("rules.toml", with(rules, "expert.{e}.weight", "mask.{e}"));
  EXPECT_THAT(found("foreign.st", map()), HasSubstr("experts does not fit"));
  write("more.st", "net.", {12, 4}, {{"net.some.1", {{3, 6}, DType::f32}}});
  folder.write("rules.toml", with(rules, "expert.{e}.weight", "some.{e}"));
  EXPECT_THAT(found("more.st", map()),
              AllOf(HasSubstr("only some of the tensors that make experts"), HasSubstr("net.some.0")));
  folder.write("rules.toml", with(rules, "block", "blocks"));
  EXPECT_EQ(find_weights(program, WeightFile(folder.path("foreign.st")), map()).missing.size(), 2u);
}

TEST_F(Weights, RulesOfTheWrongFormAreRefusedWithTheirLine) {
  EXPECT_THAT(error_of_rules("[tensors]\n\"a\" = 3\n"),
              AllOf(HasSubstr("wrong.toml:2"), HasSubstr("a value of the wrong kind")));
  EXPECT_THAT(error_of_rules("[tensors]\n\"a\" = { layout = \"a -> a\" }\n"), HasSubstr("does not say from where"));
  EXPECT_THAT(error_of_rules("[tensors]\n\"a\" = { from = \"b\", layouts = \"a -> a\" }\n"), HasSubstr("\"layouts\""));
  EXPECT_THAT(error_of_rules("[tensors]\n\"a\" = { from = \"b\", layout = \"a\" }\n"),
              AllOf(HasSubstr("wrong.toml:2"), HasSubstr("has no arrow")));
  EXPECT_THAT(error_of_rules("[tensors]\n\"a\" = \"b.{i}\"\n"), HasSubstr("is said nowhere"));
  EXPECT_THAT(error_of_rules("[tensors]\n\"a{i}\" = \"b\"\n"), HasSubstr("{i} does not stand in the name"));
  EXPECT_THAT(error_of_rules("[tensors]\n"), HasSubstr("the file has no rule"));
  EXPECT_THAT(error_of_rules("tensor = 3\n"), HasSubstr("a key that means nothing here"));
  EXPECT_THAT(error_of_rules("= 3\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(error_of_rules("a" + with(std::string(100'000, '.'), ".", ".a") + " = 1\n"),
              HasSubstr("wrong.toml:1: error: [weights] more than 64 dots in one line"));
  EXPECT_THAT(error_of_rules("ignore = [3]\n"), HasSubstr("a list of names of tensors"));
  EXPECT_THAT(error_of_rules("[tensors]\n\"b\" = 3\n\"a\" = 3\n"), HasSubstr("wrong.toml:2"));
  EXPECT_THAT(error_of_rules("tensor = 3\nignored = 3\n"), HasSubstr("wrong.toml:1"));
}

TEST_F(Weights, MayBeHalvesAndLieInSeveralFiles) {
  // As numpy writes them: 1, -2, 65504 and the least number above zero in half precision; 1.5 and -3 in bfloat16.
  const std::string header = R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                             R"("i":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}})";
  std::string file(8, '\0');
  file[0] = char(header.size());
  file += header;
  for (const uint16_t bits : {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x3FC0, 0xC040})
    file += char(bits & 255), file += char(bits >> 8);
  file += std::string(8, '\0');
  folder.write("w/one.safetensors", file);
  folder.write(
      "w/model.safetensors.index.json",
      R"({"metadata":{}, "weight_map":{"a":"one.safetensors","b":"one.safetensors","net.out.bias":"two.safetensors"}})");
  write("two.safetensors", "net.", {12, 4});
  std::filesystem::rename(folder.path("two.safetensors"), folder.path("w/two.safetensors"));
  WeightFile weights(folder.path("w"));
  EXPECT_EQ(weights.types().size(), 7u) << "what is no real number is left out";
  const HostTensor a = weights.read("a"), b = weights.read("b");
  EXPECT_THAT(a.as<float>(), ElementsAre(1, -2, 65504, std::ldexp(1.0F, -24)));
  EXPECT_THAT(b.as<float>(), ElementsAre(1.5, -3));
  EXPECT_EQ(weights.read("net.out.bias").as<float>()[1], value("out.bias", 1));
  EXPECT_THAT(error_of([&] { WeightFile(folder.path("empty")); }), HasSubstr("no such file"));
  folder.write("none/readme", "");
  EXPECT_THAT(error_of([&] { WeightFile(folder.path("none")); }),
              AllOf(HasSubstr("the folder has no weights"), HasSubstr("model.safetensors")));
  folder.write("none/model.safetensors.index.json", R"({"weight_map":{"a":"../../etc/passwd"}})");
  EXPECT_THAT(error_of([&] { WeightFile(folder.path("none")); }), HasSubstr("no index of safetensors files"));
  EXPECT_THAT(error_of([&] { SafetensorsFile(folder.path("w/one.safetensors")); }), HasSubstr("F32 or I32"));
}

TEST_F(Weights, OfTheExamplesAreRulesThatCanBeRead) {
  for (const char* name : {"gpt2", "bert", "llama", "mixtral", "t5", "vit"})
    EXPECT_FALSE(WeightMap::load(std::string(HETSYNTH_SOURCE_DIR "/examples/weights/") + name + ".toml").is_identity())
        << name;
}

}  // namespace
}  // namespace hetsynth
