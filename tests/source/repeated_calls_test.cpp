// Layers that are alike but for the streams of random numbers that they draw: what was found of one counts for the
// next, and damage in any of them is found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

const Generated& layers() {
  static const Generated g = [] {
    Trace trace("layers.cpp");
    run_builder(trace, [] {
      Tensor x = parameter("x", {6, 10}, normal(1));
      for (int i = 0; i < 4; ++i) {
        const Tensor w = parameter(fmt::format("w{}", i), {10, 10}, normal(1));
        x = dropout(tanh(matmul(x, w)), 0.1);
      }
      minimize(sum(x * x), SGD{.learning_rate = 0.5, .momentum = 0});
    });
    const Program program = differentiate(trace);
    const Cluster cluster = unequal_cluster({1e9});
    return generated(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

TEST(RepeatedCalls, OfOtherStreamsPass) {
  const SourceCheck found = check(layers(), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
}

/// Every stream by every other one.
TEST(RepeatedCalls, WithAnotherStreamAreFound) {
  const std::string& text = layers().devices[0].files[0].text;
  int damaged = 0;
  for (size_t at = text.find("uniform(seed, "); at != std::string::npos; at = text.find("uniform(seed, ", at + 1)) {
    const size_t number = at + std::string("uniform(seed, ").size(), end = text.find(',', number);
    for (int stream = 0; stream < 5; ++stream) {
      const std::string other = std::to_string(stream);
      if (text.substr(number, end - number) == other) continue;
      ++damaged;
      const SourceCheck found = check(layers(), 0, text.substr(0, number) + other + text.substr(end));
      EXPECT_EQ(found.verdict, Verdict::refuted) << text.substr(at, 40) << " as " << stream << ": " << found.summary;
    }
  }
  EXPECT_GE(damaged, 28) << text;
}

/// The second layer and those behind it, with another number or operand.
TEST(RepeatedCalls, ThatAreOtherwiseDamagedAreFound) {
  const std::string& text = layers().devices[0].files[0].text;
  int damaged = 0;
  const std::pair<const char*, const char*> edits[] = {
      {"< 0.1f", "< 0.2f"}, {"1.1111112f", "1.2f"}, {"tanh_f32(", "-tanh_f32("}};
  for (const auto& [from, to] : edits)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
      if (text.rfind("uniform(seed", at) == std::string::npos) continue;
      ++damaged;
      std::string wrong = text;
      const SourceCheck found = check(layers(), 0, wrong.replace(at, std::string(from).size(), to));
      EXPECT_EQ(found.verdict, Verdict::refuted) << text.substr(at, 40) << ": " << found.summary;
    }
  EXPECT_GE(damaged, 10) << text;
}

}  // namespace
}  // namespace hetsynth::test
