// Clang in process and ORC: generated text that runs, its messages, and what compiled code may do in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "dsl/jit/compiled_code.h"
#include "tests/support/temporary_cache.h"

extern "C" int hetsynth_test_host_function(int x) { return x + 100; }
extern "C" void hetsynth_test_host_throws() { throw std::runtime_error("thrown by the host"); }

namespace hetsynth {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

class Compile : public TemporaryCache {};

TEST_F(Compile, RunsGeneratedCode) {
  NativeModule module = load_native("extern \"C\" int answer(int x) { return 6 * x; }");
  EXPECT_EQ(module.function<int(int)>("answer")(7), 42);
  EXPECT_EQ(module.find("no_such_function"), nullptr);
}

TEST_F(Compile, ResolvesAgainstThisProcess) {
  NativeModule module = load_native(
      "extern \"C\" int hetsynth_test_host_function(int); extern \"C\" float tanhf(float);\n"
      "extern \"C\" float call(int x) { return hetsynth_test_host_function(x) + tanhf(0.0f); }");
  EXPECT_EQ(module.function<float(int)>("call")(1), 101.0f);
}

TEST_F(Compile, GivenSymbolsComeBeforeThoseOfTheProcess) {
  int (*stand_in)(int) = [](int x) { return -x; };
  NativeModule module = load_native(
      "extern \"C\" int hetsynth_test_host_function(int); extern \"C\" int call(int x) { return "
      "hetsynth_test_host_function(x); }",
      {}, {{"hetsynth_test_host_function", reinterpret_cast<void*>(stand_in)}});
  EXPECT_EQ(module.function<int(int)>("call")(5), -5);
}

TEST_F(Compile, UnresolvedSymbolsAreNamed) {
  try {
    load_native("extern \"C\" void hetsynth_absent(); extern \"C\" void call() { hetsynth_absent(); }",
                {.file_name = "rank3.cpp"});
    FAIL() << "an unresolved symbol was accepted";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank3.cpp cannot be linked"));
    EXPECT_THAT(error.what(), HasSubstr("hetsynth_absent"));
  }
}

TEST_F(Compile, BytesThatAreNoObjectAreRefused) {
  EXPECT_THROW(NativeModule::load("these bytes are no object file", "bad"), InternalError);
  EXPECT_THROW(NativeModule::load("", "empty"), InternalError);
}

TEST_F(Compile, MistakesComeBackAsTextAndStructureAndNothingIsPrinted) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  CompileResult result = compile_object("int f() {\n  return undeclared;\n}\n", {.file_name = "device.cpp"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_FALSE(result.ok);
  EXPECT_TRUE(result.output.empty());
  ASSERT_EQ(result.messages.size(), 1u) << result.text;
  EXPECT_EQ(result.messages[0].severity, Severity::error);
  EXPECT_EQ(result.messages[0].where, (SourceLocation{"device.cpp", 2, 10}));
  EXPECT_EQ(result.messages[0].text, "use of undeclared identifier 'undeclared'");
  EXPECT_THAT(result.text, HasSubstr("device.cpp:2:10: error: use of undeclared identifier 'undeclared'\n"
                                     "    2 |   return undeclared;\n"
                                     "      |          ^\n"));
}

TEST_F(Compile, GeneratedTextThatDoesNotCompileIsOurFaultAndIsKept) {
  try {
    compile_cached("int broken = ;", {.file_name = "rank0.cpp"});
    FAIL() << "text that does not compile was accepted";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("generated source does not compile, kept as"));
    EXPECT_THAT(error.what(), HasSubstr("rank0.cpp:1:14: error: expected expression"));
  }
  ASSERT_EQ(entries("failed").size(), 1u);
  EXPECT_EQ(read(entries("failed")[0]), "int broken = ;");
}

TEST_F(Compile, ReadsFilesInMemory) {
  CompileResult result = compile_object("#include \"virtual/constants.h\"\nint value = constant;",
                                        {.include_directories = {"/nowhere"},
                                         .files = {{"/nowhere/virtual/constants.h", "constexpr int constant = 3;\n"}}});
  EXPECT_TRUE(result.ok) << result.text;
  EXPECT_THAT(result.dependencies, testing::ElementsAre("/nowhere/virtual/constants.h"));
}

TEST_F(Compile, IsDeterministic) {
  const char* source = "extern \"C\" void scale(float* x, int n) { for (int i = 0; i < n; ++i) x[i] *= 2; }";
  EXPECT_EQ(compile_object(source, {}).output, compile_object(source, {}).output);
}

TEST_F(Compile, ExceptionsUnwindThroughCompiledFrames) {
  NativeModule module = load_native(
      "extern \"C\" void hetsynth_test_host_throws();\n"
      "struct Guard { int* count; ~Guard() { ++*count; } };\n"
      "extern \"C\" void pass(int* count) { Guard guard{count}; hetsynth_test_host_throws(); }\n"
      "extern \"C\" int caught() { try { hetsynth_test_host_throws(); } catch (...) { return 1; } return 0; }\n"
      "extern \"C\" void own() { throw 7; }\n");
  int unwound = 0;
  EXPECT_THROW(module.function<void(int*)>("pass")(&unwound), std::runtime_error);
  EXPECT_EQ(unwound, 1);
  EXPECT_EQ(module.function<int()>("caught")(), 1);
  EXPECT_THROW(module.function<void()>("own")(), int);
}

TEST_F(Compile, StaticObjectsAreMadeOnLoadAndDestroyedOnUnload) {
  int events = 0;
  {
    NativeModule module = load_native(
        "extern \"C\" int events;\n"
        "struct Static { int value; Static(int v) : value(v) { events += v; } ~Static() { events -= value; } };\n"
        "static Static late(1);\n"
        "__attribute__((init_priority(200))) static Static early(10);\n"
        "int at_early_time = events;\n"
        "extern \"C\" int total() { return late.value + early.value; }\n",
        {}, {{"events", &events}});
    EXPECT_EQ(events, 11);
    EXPECT_EQ(module.function<int()>("total")(), 11);
  }
  EXPECT_EQ(events, 0);
}

TEST_F(Compile, StaticInitialisersRunInOrderOfPriority) {
  NativeModule module = load_native(
      "int digits = 0;\n"
      "struct Digit { Digit(int d) { digits = digits * 10 + d; } };\n"
      "Digit third(3), fourth(4);\n"
      "__attribute__((init_priority(300))) Digit second(2);\n"
      "__attribute__((init_priority(200))) Digit first(1);\n"
      "extern \"C\" int order() { return digits; }\n");
  EXPECT_EQ(module.function<int()>("order")(), 1234);
}

TEST_F(Compile, ThreadLocalsAreOnePerThread) {
  NativeModule module = load_native("thread_local int count = 40; extern \"C\" int next() { return ++count; }");
  auto* next = module.function<int()>("next");
  EXPECT_EQ(next(), 41);
  EXPECT_EQ(next(), 42);
  int other = 0;
  std::thread([&] { other = next(); }).join();
  EXPECT_EQ(other, 41);
}

TEST_F(Compile, ModulesDoNotSeeEachOther) {
  NativeModule first = load_native("int shared = 1; extern \"C\" int value() { return shared; }");
  NativeModule second = load_native("int shared = 2; extern \"C\" int value() { return shared; }");
  EXPECT_EQ(first.function<int()>("value")(), 1);
  EXPECT_EQ(second.function<int()>("value")(), 2);
}

TEST_F(Compile, ThreadsCompileAndLoadAtTheSameTime) {
  constexpr int threads = 4, each = 5;
  std::vector<int> sums(threads, 0);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&sums, t] {
      for (int i = 0; i < each; ++i) {
        std::string value = std::to_string(t * each + i);
        sums[t] += load_native("extern \"C\" int value() { return " + value + "; }").function<int()>("value")();
        CompileResult wrong = compile_object("int x = wrong" + value + ";", {});
        if (wrong.ok || wrong.text.find("wrong" + value) == std::string::npos) sums[t] = -1000;
      }
    });
  for (std::thread& worker : workers) worker.join();
  for (int t = 0; t < threads; ++t) EXPECT_EQ(sums[t], each * (each * t) + each * (each - 1) / 2) << "thread " << t;
}

TEST_F(Compile, UsesThisHostsVectors) {
  // Native code differs from baseline code exactly when the host has more than the baseline.
  const char* source = "void add(float* a, const float* b, int n) { for (int i = 0; i < n; ++i) a[i] += b[i]; }";
  bool avx =
      compiler_identity().find("+avx,") != std::string::npos || compiler_identity().find("+avx2") != std::string::npos;
  EXPECT_EQ(compile_object(source, {.native = true}).output != compile_object(source, {.native = false}).output, avx);
}

}  // namespace
}  // namespace hetsynth
