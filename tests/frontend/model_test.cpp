// Loading model files: tracing again, caches, and every message a model can cause.
#include <gmock/gmock.h>

#include <thread>

#include "model_fixture.h"

namespace hetsynth {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Model : public ModelTest {};

TEST_F(Model, TracesAgainWithOtherSettings) {
  auto model = load("void model() { Tensor x = leaf({test_option(\"batch\", 8), 3}); }\n");
  EXPECT_EQ(model->trace()->program.nodes[0].type.shape, (Shape{8, 3}));
  EXPECT_EQ(model->trace({{"batch", "1"}})->program.nodes[0].type.shape, (Shape{1, 3}));
}

TEST_F(Model, UsesTheStandardLibraryStaticsAndExceptions) {
  auto model = load(
      "#include <cmath>\n#include <iostream>\n#include <map>\n#include <sstream>\n"
      "static const std::map<std::string, int> sizes = {{\"a\", 4}};\n"
      "void model() {\n"
      "  std::ostringstream out; out << int(std::sqrt(9.0));\n"
      "  try { sizes.at(\"b\"); } catch (const std::out_of_range&) { leaf({sizes.at(\"a\"), std::stoi(out.str())}); }\n"
      "}\n");
  EXPECT_EQ(model->trace()->program.nodes[0].type.shape, (Shape{4, 3}));
}

TEST_F(Model, LoadsInSeveralThreads) {
  for (int t = 0; t < 3; ++t)
    write("model" + std::to_string(t) + ".cpp",
          std::string(prelude) + "\nvoid model() { Tensor x = leaf({" + std::to_string(t + 1) + "}); }\n");
  std::vector<int64_t> sizes(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&sizes, t] {
      auto model = load_model("model" + std::to_string(t) + ".cpp", {.use_cache = false});
      sizes[t] = model->trace()->program.nodes[0].type.shape[0];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(sizes, testing::ElementsAre(1, 2, 3));
}

TEST_F(Model, TheSecondLoadComesFromTheCacheUntilAFileChanges) {
  write("size.h", "constexpr int size = 1; // " + folder_.string() + "\n");
  const std::string text = "#include \"size.h\"\nvoid model() { leaf({size}); }\n";
  EXPECT_FALSE(load(text)->times().object_from_cache);
  EXPECT_TRUE(load(text)->times().object_from_cache);
  write("size.h", "constexpr int size = 2; // " + folder_.string() + "\n");
  auto changed = load(text);
  EXPECT_FALSE(changed->times().object_from_cache);
  EXPECT_EQ(changed->trace()->program.nodes[0].type.shape, (Shape{2}));
  EXPECT_FALSE(load(text + "// changed\n")->times().object_from_cache);
}

TEST_F(Model, WarningsAreKeptWithTheObject) {
  const std::string text = "void model() { int n = 2; n == 3; leaf({n}); } // " + folder_.string() + "\n";
  for (bool cached : {false, true}) {
    auto model = load(text);
    EXPECT_EQ(model->times().object_from_cache, cached);
    EXPECT_THAT(model->warnings(), StartsWith("model.cpp:3:29: warning: equality comparison result unused"));
  }
}

TEST_F(Model, ErrorsOfCompilationAreClangsOwn) {
  EXPECT_EQ(message_of("void model() {\n  Tensor x = undeclared({2});\n}\n"),
            "model.cpp: error: the model does not compile\n"
            "model.cpp:4:14: error: use of undeclared identifier 'undeclared'\n"
            "    4 |   Tensor x = undeclared({2});\n"
            "      |              ^");
}

TEST_F(Model, TensorsInStaticVariablesAreRefused) {
  EXPECT_THAT(message_of("void model() {\n  static Tensor w = leaf({2});\n}\n"),
              StartsWith("model.cpp: error: the model does not compile\n"
                         "model.cpp:4:17: error: a tensor cannot be kept in a static variable"));
}

TEST_F(Model, ResultsThatGoNowhereAreWarnedAbout) {
  auto model = load(
      "void model() {\n  Tensor x = leaf({2});\n  stop_gradient(x);\n  (void)leaf({3});\n  leaf({4});\n}\n"
      "namespace hetsynth { Tensor stop_gradient(Tensor x) { return x; } }\n");
  EXPECT_THAT(model->warnings(),
              StartsWith("model.cpp:5:3: warning: the result is not used: operators give a new tensor"));
  EXPECT_EQ(model->warnings().find("model.cpp:6"), std::string::npos);
}

TEST_F(Model, NothingIsPrinted) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  message_of("void model() { undeclared(); }\n");
  message_of("extern int absent; void model() { leaf({absent}); }\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(Model, ShapeErrorsShowTheLineWithACaretAndWhereArgumentsWereMade) {
  EXPECT_EQ(message_of("void model() {\n"
                       "  Tensor x = leaf({32, 256});\n"
                       "\tauto w = leaf({128, 10});\n"
                       "  Tensor h = product(x, w);\n"
                       "}\n"),
            "model.cpp:6:14: error: [product] shapes differ: [32,256] and [128,10]\n"
            "    6 |   Tensor h = product(x, w);\n"
            "      |              ^\n"
            "  expected: equal shapes\n"
            "model.cpp:4:10: note: argument 1 is x, f32[32,256]\n"
            "    4 |   Tensor x = leaf({32, 256});\n"
            "      |          ^\n"
            "model.cpp:5:7: note: argument 2 is w, f32[128,10]\n"
            "    5 | \tauto w = leaf({128, 10});\n"
            "      | \t     ^");
}

TEST_F(Model, ErrorsOfInfixOperatorsPointAtTheOperand) {
  EXPECT_THAT(message_of("void model() {\n  Tensor x = leaf({2}), y = leaf({3});\n  Tensor z = x % y;\n}\n"),
              StartsWith("model.cpp:5:14: error: [product] shapes differ: [2] and [3]\n"
                         "    5 |   Tensor z = x % y;\n"
                         "      |              ^\n"));
}

TEST_F(Model, ErrorsInTheUsersHeadersShowThatHeader) {
  write("layers.h", "inline Tensor layer(Tensor x) {\n  return product(x, leaf({7}));\n}\n");
  EXPECT_THAT(message_of("#include \"layers.h\"\nvoid model() { layer(leaf({2})); }\n"),
              StartsWith("./layers.h:2:10: error: [product] shapes differ: [2] and [7]\n"
                         "    2 |   return product(x, leaf({7}));\n"
                         "      |          ^\n"));
}

TEST_F(Model, AMissingFileIsNamed) {
  try {
    load_model("absent.cpp");
    FAIL() << "a missing file was loaded";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::invalid_input);
    EXPECT_THAT(error.what(),
                AllOf(StartsWith("absent.cpp: error: cannot read the model file"), HasSubstr("No such file")));
  }
}

TEST_F(Model, APlanOrAClusterInItsPlaceIsTold) {
  for (const auto& [file, kind] : {std::pair("plan.json", "a plan or certificate"), {"cluster.toml", "a cluster"}}) {
    try {
      load_model(file);
      FAIL() << file;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("this is no model file"));
      EXPECT_THAT(error.what(), HasSubstr(kind));
      EXPECT_THAT(error.what(), HasSubstr("name the model first, then the plan"));
    }
  }
}

TEST_F(Model, AFolderIsNoModel) {
  EXPECT_THROW(
      try { load_model(folder_.string()); } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("it is not a regular file"));
        throw;
      },
      UserError);
}

TEST_F(Model, AModelWithoutBuilderIsTold) {
  const char* message =
      "model.cpp: error: the model file defines no function `void model()`\n  to mend:  put what builds the network "
      "into";
  EXPECT_THAT(message_of("void build() { leaf({2}); }\n"), StartsWith(message));
  EXPECT_THAT(message_of("namespace mine { void model() { leaf({2}); } }\n"), StartsWith(message));
  EXPECT_THAT(message_of("void model(int) { leaf({2}); }\n"), StartsWith(message));
  EXPECT_THAT(message_of(""), StartsWith(message));
}

TEST_F(Model, UndefinedFunctionsAreNamed) {
  EXPECT_THAT(message_of("Tensor absent(int); extern int missing; void model() { absent(missing); }\n"),
              StartsWith("model.cpp: error: the model uses what nobody defines: absent(int), missing\n"));
}

TEST_F(Model, ExceptionsOfTheModelAreTold) {
  EXPECT_EQ(message_of("void model() { throw std::runtime_error(\"no luck\"); }\n"),
            "model.cpp: error: the model threw std::runtime_error: no luck");
  EXPECT_THAT(message_of("void model() { std::vector<int>().at(3); }\n"),
              StartsWith("model.cpp: error: the model threw std::out_of_range: "));
  EXPECT_EQ(message_of("struct Mine {}; void model() { throw Mine(); }\n"), "model.cpp: error: the model threw Mine");
  EXPECT_EQ(message_of("void model() { throw 3; }\n"), "model.cpp: error: the model threw int");
}

TEST_F(Model, StaticInitialisersThatFailAreTold) {
  EXPECT_EQ(
      message_of(
          "static int x = [] { throw std::runtime_error(\"early\"); return 1; }();\nvoid model() { leaf({x}); }\n"),
      "model.cpp: error: the model threw std::runtime_error: early");
  EXPECT_EQ(message_of("struct Mine { ~Mine() {} };\nstatic int x = [] { throw Mine(); return 1; }();\nvoid model() { "
                       "leaf({x}); }\n"),
            "model.cpp: error: the model threw Mine");
  EXPECT_THAT(message_of("static Tensor x = leaf({2});\nvoid model() {}\n"),
              HasSubstr("a DSL function was called outside of a model"));
}

TEST_F(Model, CrashesOfTheModelAreTold) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "SKIPPED: AddressSanitizer reports crashes itself";
#endif
  auto trace = [](const std::string& text) { load(text)->trace({{"heads", "0"}}); };
  EXPECT_EXIT(trace("void model() {\n  Tensor x = leaf({2});\n  leaf({12 / test_option(\"heads\", 4)});\n}\n"),
              testing::ExitedWithCode(int(ExitCode::invalid_input)),
              "model.cpp: error: the model crashed while it was built: it divided an integer by zero\n"
              "  found:    the last tensor it made is x, at model.cpp:4\n"
              "  to mend:  check the options that it divides by");
  EXPECT_EXIT(
      trace("int deeper(volatile int n) { volatile char big[4096]; big[0] = char(n); return deeper(n + 1) + big[0]; }\n"
            "void model() { leaf({deeper(0)}); }\n"),
      testing::ExitedWithCode(int(ExitCode::invalid_input)),
      "it used memory that is not its own.*\n.*endless recursion");
  EXPECT_EXIT(trace("#include <cstdlib>\nvoid model() { std::abort(); }\n"),
              testing::ExitedWithCode(int(ExitCode::invalid_input)),
              "the model crashed while it was built: it aborted");
}

TEST_F(Model, OurOwnFaultsStayOurs) {
  EXPECT_THROW(load("void model() { internal_fault(); }\n")->trace(), InternalError);
}

TEST_F(Model, UnknownSettingsAreTold) {
  EXPECT_THAT(message_of("void model() { leaf({test_option(\"batch\", 8)}); }\n", {{"bach", "1"}}, ExitCode::usage),
              AllOf(HasSubstr("bach"), HasSubstr("batch")));
}

TEST_F(Model, AFailedTraceLeavesTheThreadFree) {
  auto model = load("void model() { if (test_option(\"fail\", 1)) throw 1; leaf({2}); }\n");
  EXPECT_THROW(model->trace(), UserError);
  EXPECT_EQ(model->trace({{"fail", "0"}})->program.nodes.size(), 1u);
}

}  // namespace
}  // namespace hetsynth
