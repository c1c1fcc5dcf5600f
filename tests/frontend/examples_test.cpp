// The shipped examples load without a warning, and mistakes in real operators point into the user's file.
#include <gmock/gmock.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/build_paths.h"
#include "model_fixture.h"

namespace hetsynth {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Examples : public ModelTest {
 protected:
  static constexpr const char* prelude = "#include <hetsynth/hetsynth.h>\nusing namespace hetsynth;\n";
  static std::string path(const std::string& name) { return std::string(HETSYNTH_SOURCE_DIR) + "/examples/" + name; }
  static std::string error_of(const std::string& text) {
    write("model.cpp", prelude + text);
    try {
      load_model("model.cpp")->trace();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Examples, LoadWithoutWarningsAndDifferentiate) {
  for (const auto& entry : std::filesystem::directory_iterator(path(""))) {
    if (entry.path().extension() != ".cpp") continue;
    auto model = load_model(entry.path());
    EXPECT_EQ(model->warnings(), "") << entry.path();
    auto trace = model->trace();
    EXPECT_GE(differentiate(*trace).loss, 0) << entry.path();
  }
}

TEST_F(Examples, GptCarriesItsVariablesAndOptions) {
  auto model = load_model(path("gpt.cpp"));
  auto count = [&](const std::map<std::string, std::string>& settings, const std::string& name) {
    auto trace = model->trace(settings);
    int found = 0;
    for (const Node& node : trace->program.nodes) found += node.name == name;
    return found;
  };
  EXPECT_EQ(count({{"layers", "2"}}, "query"), 2);
  EXPECT_EQ(count({{"layers", "3"}}, "hidden"), 3);
  EXPECT_EQ(count({}, "logits"), 1);
}

TEST_F(Examples, AShapeErrorOfMatmulShowsBothShapesAndWhereTheyWereMade) {
  EXPECT_EQ(error_of("Tensor linear(Tensor x, int64_t out) {\n"
                     "  Tensor w = parameter(\"w\", {x.size(-1) / 2, out}, zeros());\n"
                     "  return matmul(x, w);\n"
                     "}\n"
                     "void model() {\n"
                     "  auto [samples, labels] = synthetic_batch(32, 256, 10);\n"
                     "  Tensor h = linear(samples, 10);\n"
                     "}\n"),
            "model.cpp:5:17: error: [matmul] inner dimensions disagree: [32,256] x [128,10]\n"
            "    5 |   return matmul(x, w);\n"
            "      |                 ^\n"
            "  expected: a second argument with 256 rows\n"
            "  found:    128 rows\n"
            "model.cpp:8:28: note: argument 1 is samples, f32[32,256]\n"
            "    8 |   auto [samples, labels] = synthetic_batch(32, 256, 10);\n"
            "      |                            ^\n"
            "model.cpp:4:14: note: argument 2 is w, f32[128,10]\n"
            "    4 |   Tensor w = parameter(\"w\", {x.size(-1) / 2, out}, zeros());\n"
            "      |              ^");
}

TEST_F(Examples, InfixOperatorsAndSizesPointAtTheirLine) {
  EXPECT_THAT(
      error_of("void model() {\n  auto [samples, labels] = synthetic_batch(32, 256, 10);\n"
               "  Tensor w = parameter(\"w\", {128}, zeros());\n  Tensor h = relu(samples)\n      + w * 2;\n}\n"),
      AllOf(StartsWith("model.cpp:6:14: error: [add] shapes do not broadcast: [32,256] with [128]\n"
                       "    6 |   Tensor h = relu(samples)\n"
                       "      |              ^\n"),
            HasSubstr("model.cpp:7:9: note: argument 2 is mul, f32[128]\n    7 |       + w * 2;\n      |         ^")));
  EXPECT_THAT(
      error_of("void model() {\n  auto [samples, labels] = synthetic_batch(32, 256, 10);\n  samples.size(5);\n}\n"),
      StartsWith("model.cpp:5:3: error: [size] there is no dimension 5\n"
                 "    5 |   samples.size(5);\n"
                 "      |   ^\n"));
}

TEST_F(Examples, AMisspeltOptionIsTold) {
  EXPECT_THROW(
      try {
        load_model(path("gpt.cpp"))->trace({{"layer", "2"}});
      } catch (const UserError& error) {
        EXPECT_THAT(error.what(),
                    AllOf(HasSubstr("the model has no option named layer"), HasSubstr("layers, heads, width")));
        EXPECT_EQ(error.code(), ExitCode::usage);
        throw;
      },
      UserError);
}

}  // namespace
}  // namespace hetsynth
