// The generated text of plans with halo exchanges: it agrees with its plan, and one that was damaged does not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"
#include "tests/support/window_plan.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

/// A convolution of each kind and a pool, with their gradients and the update of the kernels.
Program small_network() {
  Trace trace("windows.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {2, 2, 8, 6}, normal(1));
    x = relu(conv2d(x, parameter("w0", {3, 2, 3, 3}, normal(1)), {.padding = 1}));
    x = max_pool2d(x, 3, {.stride = 2, .padding = 1});
    x = conv2d(x, parameter("w1", {2, 3, 3, 3}, normal(1)), {.padding = 1});
    minimize(sum(x * x), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

const Generated& divided() {
  static const Generated out = [] {
    const Program p = small_network();
    return generated(p, window_plan(p, {{"rows", 2, {0, 1, 1, 2, 4}}}, {"x"}), cpu_cluster(4));
  }();
  return out;
}

const std::string& text_of(const Generated& g, int rank) { return g.devices[size_t(rank)].files.front().text; }

void expect_agrees(const Generated& g) {
  for (int rank = 0; rank < int(g.devices.size()); ++rank) {
    EXPECT_THAT(text_of(g, rank), HasSubstr("hetsynth_halo_exchange(context, "));
    const SourceCheck result = check(g, rank);
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << text_of(g, rank);
  }
}

TEST(HaloSource, AgreesWithItsPlan) { expect_agrees(divided()); }

TEST(HaloSource, OfRowsAndColumnsAgreesWithItsPlan) {
  const Program p = small_network();
  const SpmdProgram plan = window_plan(p, {{"rows", 2, {0, 1, 4}}, {"columns", 3, {0, 2, 3}}}, {"x"});
  expect_agrees(generated(p, plan, cpu_cluster(4)));
}

/// A GPU's exchange with cpu devices is the same call, in the order of the communication stream.
TEST(HaloSource, OfAGpuAmongCpuDevicesAgreesWithItsPlan) {
  const Program p = small_network();
  Cluster cluster = cuda_devices({1e9, 1e9, 1e9});
  cluster.devices[1].kind = DeviceKind::cpu;
  const Generated g = generated_for_cuda(p, window_plan(p, {{"rows", 2, {0, 1, 2, 4}}}, {"x"}), cluster);
  expect_agrees(g);
  const std::string& text = text_of(g, 2);
  const std::string call = "bounds_rows, 1, 1, 0)";
  const size_t at = text.find(call);
  ASSERT_NE(at, std::string::npos) << text;
  std::string wrong = text;
  wrong.replace(at, call.size(), "bounds_rows, 1, 2, 0)");
  EXPECT_THAT(check(g, 2, wrong).summary, HasSubstr("the elements after of the halo_exchange of"));
}

/// Every argument of every exchange counts, on every rank that has rows: what lies in another place, goes to another,
/// has other extents, boundaries, halos, number, axis or type.
TEST(HaloSource, WithDamagedCallsIsFound) {
  const Generated& g = divided();
  const std::regex call(
      R"(hetsynth_halo_exchange\(context, (\d+), (\d+), ([^,]+), ([^,]+), (\d+), (\d+), (\w+), (\d+), (\d+), (\d+)\))");
  struct Argument {
    int group;
    std::string what;
  };
  const std::vector<Argument> numbers{{1, "the number of the halo_exchange of"},
                                      {2, "the axis of the halo_exchange of"},
                                      {5, "the outer extent of the halo_exchange of"},
                                      {6, "the inner extent of the halo_exchange of"},
                                      {8, "the elements before of the halo_exchange of"},
                                      {9, "the elements after of the halo_exchange of"},
                                      {10, "the type of the halo_exchange of"}};
  int damaged = 0;
  for (int rank : {0, 2}) {
    const std::string& text = text_of(g, rank);
    int calls = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at, ++calls) {
      const auto with = [&](int group, const std::string& by) {
        return text.substr(0, size_t(at->position(size_t(group)))) + by +
               text.substr(size_t(at->position(size_t(group)) + at->length(size_t(group))));
      };
      const auto expect_found = [&](const std::string& wrong, const std::string& words, std::string or_else = "") {
        const SourceCheck result = check(g, rank, wrong);
        EXPECT_EQ(result.verdict, Verdict::refuted) << at->str() << "\n" << result.summary;
        if (or_else.empty()) or_else = words;
        EXPECT_THAT(result.summary, ::testing::AnyOf(HasSubstr(words), HasSubstr(or_else))) << at->str();
        ++damaged;
      };
      for (const auto& [group, what] : numbers)
        for (int64_t by : {1, 2}) expect_found(with(group, std::to_string(std::stoll((*at)[group]) + by)), what);
      expect_found(with(3, (*at)[3].str() + " + 1"), "the operand of the halo_exchange of");
      // The result is longer than the operand, which may lie at the end.
      expect_found(with(4, (*at)[3].str()), "source and destination of the halo_exchange of",
                   "lie outside of the arena");
      // Another collective, and none.
      const std::string declaration = "extern \"C\" int hetsynth_halo_exchange(";
      const std::string broadcast = fmt::format("hetsynth_broadcast(context, {}, {}, {}, {}, 1, 0, 0)", (*at)[1].str(),
                                                (*at)[2].str(), (*at)[3].str(), (*at)[4].str());
      expect_found(edited(with(0, broadcast), declaration,
                          "extern \"C\" int hetsynth_broadcast(HetsynthContext*, int, int, const void*, void*, long, "
                          "int, int);\n" +
                              declaration),
                   "hetsynth_broadcast is called where the program has the halo_exchange of");
      const size_t line = text.rfind('\n', size_t(at->position(0))), next = text.find('\n', size_t(at->position(0)));
      EXPECT_EQ(check(g, rank, text.substr(0, line) + text.substr(next)).verdict, Verdict::refuted) << at->str();
    }
    EXPECT_EQ(calls, count_of(g.plan, Opcode::halo_exchange));
    EXPECT_GE(calls, 3);
  }
  EXPECT_GT(damaged, 80);
}

TEST(HaloSource, WithOtherBoundariesIsFound) {
  const Generated& g = divided();
  const std::string& text = text_of(g, 2);
  int damaged = 0;
  const std::regex table("static const long bounds_[^{]*\\{0, (\\d+), ");
  for (std::sregex_iterator at(text.begin(), text.end(), table), end; at != end; ++at, ++damaged) {
    const std::string wrong =
        text.substr(0, size_t(at->position(1))) + "0" + text.substr(size_t(at->position(1) + at->length(1)));
    const SourceCheck result = check(g, 2, wrong);
    EXPECT_EQ(result.verdict, Verdict::refuted) << at->str();
    EXPECT_THAT(result.summary, HasSubstr("the boundaries of the ")) << at->str();
  }
  EXPECT_GE(damaged, 2);
}

/// A step that reads neighbours' rows from its own part, or that is told of another padding of what it holds.
TEST(HaloSource, WithWindowsMovedOverWhatTheRankHoldsIsFound) {
  const Generated& g = divided();
  for (int rank : {0, 2, 3}) {
    const std::string& text = text_of(g, rank);
    int damaged = 0;
    const std::regex number("-?\\d+"), sizes("long convolution_\\w+\\[\\] = \\{([^}]*)\\}");
    for (std::sregex_iterator at(text.begin(), text.end(), sizes), end; at != end; ++at) {
      // The padding of rows is the tenth number.
      std::vector<std::string> of;
      const std::string list = (*at)[1].str();
      for (std::sregex_iterator n(list.begin(), list.end(), number), last; n != last; ++n) of.push_back(n->str());
      if (of.size() == 12) continue;  // strides
      ASSERT_EQ(of.size(), 16u) << at->str();
      of[9] = std::to_string(std::stoll(of[9]) + 1);
      const std::string wrong = text.substr(0, size_t(at->position(1))) + fmt::format("{}", fmt::join(of, ", ")) +
                                text.substr(size_t(at->position(1) + at->length(1)));
      const SourceCheck result = check(g, rank, wrong);
      EXPECT_EQ(result.verdict, Verdict::refuted) << "rank " << rank << " " << at->str() << "\n" << result.summary;
      ++damaged;
    }
    EXPECT_GE(damaged, 4) << text;
  }
}

}  // namespace
}  // namespace hetsynth::test
