// Adapters that export adds to the weights they adapt: the table [merge].
#include "runtime/weights/merge_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "hetsynth/build_paths.h"
#include "runtime/weights/exported_weights.h"
#include "tests/fuzz/mutate.h"
#include "tests/runtime/temporary_folder.h"
#include "tests/support/error_of.h"

namespace hetsynth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;  // NOLINT: fixtures of other folders

const std::string one_rule = R"([tensors]
"h{i}.w" = { from = "net.{i}.weight", layout = "c h d -> (h d) c" }
[merge]
"h{i}.w" = { left = "h{i}.a", right = "h{i}.b", product = "c r, r h d -> c h d", scale = "scale" }
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class Merge : public ::testing::Test {
 protected:
  using Shapes = std::map<std::string, Shape>;
  /// Whole numbers up to 8, so that all sums are exact; or any.
  void write(const Shapes& shapes, bool whole = true) {
    std::mt19937_64 random(7);
    values_.clear();
    std::vector<TensorEntry> entries;
    for (const auto& [name, shape] : shapes) {
      HostTensor tensor({shape, DType::f32});
      for (float& x : tensor.as<float>()) {
        const int64_t drawn = int64_t(random() % 17) - 8;
        x = whole ? float(drawn) : float(std::sin(double(random() % 100000)));
      }
      values_.emplace(name, tensor);
      entries.push_back({name, tensor.type});
    }
    write_safetensors(folder_.path("c.st"), entries, {}, [&](const std::string& name) { return values_.at(name); });
  }
  MergeRules rules(const std::string& text) const {
    folder_.write("rules.toml", text);
    return MergeRules::load(folder_.path("rules.toml"));
  }
  std::string error_with(const std::string& text) const {
    return error_of([&] {
      const MergeRules given = rules(text);
      const MergedWeights merged(given, SafetensorsFile(folder_.path("c.st")));
      merged.check_named(WeightMap::load(folder_.path("rules.toml")), SafetensorsFile(folder_.path("c.st")));
    });
  }
  float at(const std::string& name, int64_t i) const { return values_.at(name).as<float>()[size_t(i)]; }

  const TemporaryFolder folder_;
  std::map<std::string, HostTensor> values_;
  const Shapes two_layers_ = {{"h0.w", {4, 2, 3}}, {"h0.a", {4, 2}}, {"h0.b", {2, 2, 3}},
                              {"h1.w", {4, 2, 3}}, {"scale", {}},    {"w.m", {3}}};
};

TEST_F(Merge, AddsAProductAndLeavesLayersWithoutAdaptersAlone) {
  write(two_layers_);
  const MergeRules given = rules(one_rule);
  SafetensorsFile file(folder_.path("c.st"));
  const MergedWeights merged(given, file);
  EXPECT_EQ(merged.parameters(), 1);
  for (const char* name : {"h0.a", "h0.b", "scale"}) EXPECT_TRUE(merged.uses(name)) << name;
  for (const char* name : {"h0.w", "h1.w", "w.m"}) EXPECT_FALSE(merged.uses(name)) << name;
  EXPECT_EQ(merged.read(file, "h1.w").bytes, values_.at("h1.w").bytes);
  const HostTensor w = merged.read(file, "h0.w");
  for (int64_t c = 0; c < 4; ++c)
    for (int64_t hd = 0; hd < 6; ++hd) {
      float sum = 0;
      for (int64_t r = 0; r < 2; ++r) sum += at("h0.a", c * 2 + r) * at("h0.b", r * 6 + hd);
      EXPECT_EQ(w.as<float>()[size_t(c * 6 + hd)], at("h0.w", c * 6 + hd) + at("scale", 0) * sum) << c << " " << hd;
    }
}

/// Then the layouts of the map apply, as to a weight that was trained itself.
TEST_F(Merge, GoesOnThroughTheLayoutsOfTheMap) {
  write(two_layers_);
  const MergeRules given = rules(one_rule);
  SafetensorsFile file(folder_.path("c.st"));
  const MergedWeights merged(given, file);
  const WeightMap map = WeightMap::load(folder_.path("rules.toml"));
  merged.check_named(map, file);
  const ExportedWeights exported = exported_weights(file, map);
  ASSERT_EQ(exported.tensors.size(), 2u);
  ExportedValues values(exported, [&](const std::string& name) { return merged.read(file, name); });
  const HostTensor theirs = values.value(exported.tensors[0]), ours = merged.read(file, "h0.w");
  EXPECT_EQ(exported.tensors[0].entry.name, "net.0.weight");
  for (int64_t c = 0; c < 4; ++c)
    for (int64_t hd = 0; hd < 6; ++hd)
      EXPECT_EQ(theirs.as<float>()[size_t(hd * 4 + c)], ours.as<float>()[size_t(c * 6 + hd)]);
}

/// Against sums in long double: what is told apart from them is one rounding to float32.
TEST_F(Merge, RoundsOnce) {
  write({{"w", {3, 40, 50}}, {"a", {3, 40, 300}}, {"b", {50, 300, 3}}}, false);
  const MergeRules given =
      rules("[merge]\nw = { left = \"a\", right = \"b\", product = \"e c r, f r e -> e c f\", scale = 0.37 }\n");
  SafetensorsFile file(folder_.path("c.st"));
  const HostTensor w = MergedWeights(given, file).read(file, "w");
  for (int64_t e = 0; e < 3; ++e)
    for (int64_t c = 0; c < 40; ++c)
      for (int64_t f = 0; f < 50; ++f) {
        long double sum = 0;
        for (int64_t r = 0; r < 300; ++r)
          sum += static_cast<long double>(at("a", (e * 40 + c) * 300 + r)) *
                 static_cast<long double>(at("b", (f * 300 + r) * 3 + e));
        const int64_t i = (e * 40 + c) * 50 + f;
        const long double exact = static_cast<long double>(at("w", i)) + 0.37L * sum;
        const double unit = std::ldexp(1.0, std::ilogb(double(exact)) - 24);  // half of the last place
        // 300 terms of double precision are off by less than 1e-12.
        EXPECT_NEAR(double(w.as<float>()[size_t(i)]), double(exact), unit * 1.001 + 1e-12) << i;
      }
}

TEST_F(Merge, AddsSeveralProductsToOneWeight) {
  write({{"w", {2, 3}}, {"a", {2, 1}}, {"b", {1, 3}}, {"c", {2, 3}}, {"d", {3, 3}}});
  const MergeRules given = rules(R"([merge]
w = [{ left = "a", right = "b", product = "i r, r j -> i j", scale = 1 },
     { left = "c", right = "d", product = "i k, k j -> i j", scale = -2.5 }]
)");
  SafetensorsFile file(folder_.path("c.st"));
  const HostTensor w = MergedWeights(given, file).read(file, "w");
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < 3; ++k) sum += at("c", i * 3 + k) * at("d", k * 3 + j);
      EXPECT_EQ(w.as<float>()[size_t(i * 3 + j)], at("w", i * 3 + j) + at("a", i) * at("b", j) - 2.5F * sum);
    }
}

TEST_F(Merge, TensorsThatDoNotFitAreToldWithTheirRule) {
  const auto lacking = [&](const std::string& name) {
    Shapes shapes = two_layers_;
    shapes.erase(name);
    write(shapes);
    return error_with(one_rule);
  };
  EXPECT_THAT(lacking("h0.a"), AllOf(HasSubstr("rules.toml:4: error: [weights] the checkpoint lacks a tensor that is "
                                               "added to h0.w"),
                                     HasSubstr("expected: h0.a"), HasSubstr("h0.b alone"), HasSubstr("to mend")));
  EXPECT_THAT(lacking("h0.b"), AllOf(HasSubstr("expected: h0.b"), HasSubstr("h0.a alone")));
  EXPECT_THAT(lacking("scale"), AllOf(HasSubstr("lacks a tensor"), HasSubstr("expected: scale")));
  EXPECT_THAT(lacking("h0.w"), AllOf(HasSubstr("h0.a is added to nothing"), HasSubstr("a parameter h0.w")));
  const auto with_shape = [&](const std::string& name, const Shape& shape) {
    Shapes shapes = two_layers_;
    shapes[name] = shape;
    write(shapes);
    return error_with(one_rule);
  };
  EXPECT_THAT(with_shape("h0.a", {4, 3}),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("h0.a and h0.b do not multiply: r stands for two extents"),
                    HasSubstr("r = 3, as in h0.a of shape [4,3]"), HasSubstr("r = 2, in h0.b of shape [2,2,3]")));
  EXPECT_THAT(with_shape("h0.b", {2, 3, 2}), HasSubstr("h0.b and h0.w do not multiply: h stands for two extents"));
  EXPECT_THAT(with_shape("h0.w", {5, 2, 3}), HasSubstr("h0.a and h0.w do not multiply: c stands for two extents"));
  EXPECT_THAT(with_shape("h0.b", {2, 6}), AllOf(HasSubstr("another number of dimensions than h0.b"),
                                                HasSubstr("3 dimensions"), HasSubstr("[2,6]")));
  EXPECT_THAT(with_shape("scale", {2}), AllOf(HasSubstr("scale is no scale"), HasSubstr("one element")));
  write(two_layers_);
  EXPECT_EQ(error_with(one_rule), "no error");
  EXPECT_THAT(error_with(replaced(replaced(one_rule, "\"h{i}.a\"", "\"g{i}.a\""), "\"h{i}.b\"", "\"g{i}.b\"")),
              AllOf(HasSubstr("no rule of [merge] fits a tensor of the checkpoint"), HasSubstr("g{i}.a")));
  EXPECT_THAT(error_with(replaced(one_rule, "\"h{i}.w\" = { from", "\"v{i}.w\" = { from")),
              AllOf(HasSubstr("h0.w has something added, and is not exported"), HasSubstr("--map")));
  EXPECT_THAT(error_with(one_rule + "\"h{i}.a\" = { left = \"h{i}.w\", right = \"h{i}.b\", product = \"c h d, r h d "
                                    "-> c r\", scale = 1 }\n"),
              HasSubstr("is a factor, and has something added"));
}

/// A second kind of weight, with adapters in layer 1 alone, and what AdamW keeps of them.
constexpr const char* two_rules = R"([tensors]
"h{i}.w" = { from = "net.{i}.weight", layout = "c h d -> (h d) c" }
"h{i}.up" = "net.{i}.up"
[merge]
"h{i}.w" = { left = "h{i}.a", right = "h{i}.b", product = "c r, r h d -> c h d", scale = "scale" }
"h{i}.up" = { left = "h{i}.up.a", right = "h{i}.up.b", product = "c r, r f -> c f", scale = "scale" }
)";

/// Factors that are missing everywhere: the model has no such adapters, or the rule has other names for them.
TEST_F(Merge, WrongNamesOfBothFactorsAreToldFromLayersWithoutAdapters) {
  Shapes shapes = two_layers_;
  for (const char* up : {"h0.up", "h1.up"}) shapes[up] = {4, 5};
  for (const char* state : {".m", ".v"}) shapes[std::string("h0.a") + state] = {4, 2};
  write(shapes);
  EXPECT_EQ(error_with(two_rules), "no error") << "no adapter of any h{i}.up";
  shapes["h1.up.a"] = {4, 2}, shapes["h1.up.b"] = {2, 5};
  for (const char* state : {".m", ".v"}) shapes[std::string("h1.up.b") + state] = {2, 5};
  write(shapes);
  EXPECT_EQ(error_with(two_rules), "no error") << "an adapter of h1.up alone";
  std::string wrong = replaced(replaced(two_rules, "h{i}.up.a", "h{i}.lora_a"), "h{i}.up.b", "h{i}.lora_b");
  EXPECT_THAT(error_with(wrong),
              AllOf(HasSubstr("rules.toml:6: error: [weights] nothing of the checkpoint is added to \"h{i}.up\", and "
                              "tensors that could be are unused"),
                    HasSubstr("expected: h0.lora_a and h0.lora_b"), HasSubstr("found:    h1.up.a and h1.up.b"),
                    HasSubstr("to mend:  mend the names of the factors")));
  // What the map exports has a use, and so has what another rule adds.
  EXPECT_EQ(error_with(replaced(wrong, "[merge]", "\"h{i}.up.a\" = \"net.{i}.a\"\n[merge]")), "no error");
  EXPECT_EQ(error_with(wrong + "\"h1.up\" = { left = \"h1.up.a\", right = \"h1.up.b\", product = \"c r, r f -> c "
                               "f\", scale = 2 }\n"),
            "no error");
  wrong = replaced(two_rules, "\"h{i}.up\" = { left", "\"h{i}.ups\" = { left");
  EXPECT_THAT(error_with(wrong), HasSubstr("h1.up.a is added to nothing"));
  shapes.erase("h1.up.a"), shapes.erase("h1.up.b");
  write(shapes);
  EXPECT_THAT(error_with(wrong), AllOf(HasSubstr("rules.toml:6: error: [weights] no tensor of the checkpoint is called "
                                                 "\"h{i}.ups\""),
                                       HasSubstr("expected: the name of a weight"), HasSubstr("found:    h0.up"),
                                       HasSubstr("to mend:  mend the name")));
}

/// Whatever the names of the weights, and whichever check finds it.
TEST_F(Merge, OfSeveralWrongLinesTheFirstIsTold) {
  const auto rule = [](const std::string& weight, const std::string& left, const std::string& product) {
    return "\"" + weight + "\" = { left = \"" + left + "\", right = \"b\", product = \"" + product +
           "\", scale = 1 }\n";
  };
  const std::string good = "c r, r d -> c d";
  write({{"w", {2, 3}}, {"v", {2, 3}}, {"a", {2, 1}}, {"b", {1, 3}}});
  EXPECT_THAT(error_with("[merge]\n" + rule("w", "a", "c r") + rule("v", "a", "c r")),
              AllOf(HasSubstr("rules.toml:2"), HasSubstr("no comma")));
  EXPECT_THAT(error_with("[merge]\n" + rule("x", "a", good) + rule("v", "a", "c r, r d -> d c")),
              AllOf(HasSubstr("rules.toml:2"), HasSubstr("no tensor of the checkpoint is called \"x\"")));
  EXPECT_THAT(error_with("[merge]\n" + rule("w", "missing", good) + rule("v", "a", "c r, r d -> d c")),
              AllOf(HasSubstr("rules.toml:2"), HasSubstr("lacks a tensor that is added to w")));
  EXPECT_THAT(error_with("[tensors]\nu = \"u\"\n[merge]\n" + rule("w", "a", good) + rule("v", "a", good)),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("w has something added, and is not exported")));
}

TEST_F(Merge, SumsBeyondFloat32AreRefused) {
  write(two_layers_);
  const MergeRules given = rules(replaced(one_rule, "\"scale\"", "1e40"));
  SafetensorsFile file(folder_.path("c.st"));
  const MergedWeights merged(given, file);
  EXPECT_THAT(error_of([&] { merged.read(file, "h0.w"); }),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("h0.w with what is added to it is beyond float32")));
}

TEST_F(Merge, RulesOfTheWrongFormAreRefusedWithTheirLine) {
  write(two_layers_);
  const auto product = [&](const std::string& text) {
    return error_with(replaced(one_rule, "c r, r h d -> c h d", text));
  };
  EXPECT_THAT(product("c r r h d -> c h d"),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("no comma"), HasSubstr("\"c r, r h d -> c h d\"")));
  EXPECT_THAT(product("c r, r h d"), HasSubstr("no arrow"));
  EXPECT_THAT(product("c r -> c h d, r h d"), HasSubstr("no comma"));
  EXPECT_THAT(product("c r, r h d ->"), HasSubstr("a tensor without dimensions"));
  EXPECT_THAT(product("c c, c h d -> c h d"), HasSubstr("names a dimension of one tensor twice: c"));
  EXPECT_THAT(product("c r, r h d -> c h e"), HasSubstr("a dimension that no factor has: e"));
  EXPECT_THAT(product("c r, r h d -> c h"), HasSubstr("a dimension that one factor has alone: d"));
  EXPECT_THAT(product("c r, r (h d) -> c h d"), HasSubstr("a name of a dimension that is none"));
  EXPECT_THAT(product("c 2, 2 h d -> c h d"), HasSubstr("a name of a dimension that is none"));
  EXPECT_THAT(error_with("[tensors]\na = \"b\"\n"),
              AllOf(HasSubstr("does not say what is merged"), HasSubstr("gpt2-lora.toml")));
  EXPECT_THAT(error_with("merge = 3\n"), HasSubstr("rules.toml:1"));
  EXPECT_THAT(error_with("[merge]\nw = \"a\"\n"),
              AllOf(HasSubstr("rules.toml:2"), HasSubstr("value of the wrong kind")));
  EXPECT_THAT(error_with("[merge]\nw = []\n"), HasSubstr("an empty list"));
  EXPECT_THAT(error_with(replaced(one_rule, "left", "lefts")), HasSubstr("\"lefts\""));
  EXPECT_THAT(error_with(replaced(one_rule, "right = \"h{i}.b\", ", "")), HasSubstr("does not say right"));
  EXPECT_THAT(error_with(replaced(one_rule, ", scale = \"scale\"", "")), HasSubstr("does not say scale"));
  for (const char* wrong : {"true", "\"\"", "inf", "nan", "[1]"})
    EXPECT_THAT(error_with(replaced(one_rule, "\"scale\"", wrong)), HasSubstr("the scale is none")) << wrong;
  EXPECT_THAT(error_with(replaced(one_rule, "\"h{i}.b\"", "\"h{j}.b\"")),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("said nowhere"), HasSubstr("h{j}.b")));
  EXPECT_THAT(error_with(replaced(one_rule, "\"h{i}.b\"", "\"h{i.b\"")), HasSubstr("said nowhere"));
}

/// Whatever stands in the rules and whatever shapes a checkpoint has: they are merged, or refused with a UserError.
TEST_F(Merge, DamagedRulesAndShapesAreMergedOrRefused) {
  constexpr uint64_t seed = 20261129;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int taken = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    if (i % 10 == 0) {
      Shapes shapes = two_layers_;
      for (auto& [name, shape] : shapes) {
        if (random() % 8 == 0 && !shape.empty()) shape[random() % shape.size()] = int64_t(random() % 4);
        if (random() % 30 == 0) shape.push_back(int64_t(random() % 3));
      }
      write(shapes);
    }
    const std::string text = i % 3 == 0 ? one_rule : mutate(one_rule, random);
    try {
      const MergeRules given = rules(text);
      SafetensorsFile file(folder_.path("c.st"));
      const MergedWeights merged(given, file);
      for (const auto& [name, type] : file.types()) EXPECT_EQ(merged.read(file, name).type, type);
      ++taken;
    } catch (const UserError& error) {
      EXPECT_FALSE(error.diagnostic().message.empty());
      ++refused;
    }
  }
  // Both must be common, or the damage says nothing.
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 500);
}

TEST_F(Merge, RulesOfTheExamplesCanBeRead) {
  const std::string folder = HETSYNTH_SOURCE_DIR "/examples/weights/";
  EXPECT_EQ(MergeRules::load(folder + "gpt2-lora.toml").rules().size(), 3u);
  EXPECT_EQ(WeightMap::load(folder + "gpt2-lora.toml").rules().size(), 4u);
  EXPECT_EQ(MergeRules::load(folder + "llama-lora.toml").rules().size(), 7u);
  EXPECT_EQ(WeightMap::load(folder + "llama-lora.toml").rules().size(), 14u);
}

}  // namespace
}  // namespace hetsynth
