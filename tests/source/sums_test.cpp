// Sums over many turns, of which a few are executed: right ones are accepted, and whatever is wrong with some turn, or
// only where nothing is executed, is found.
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

/// Rows that are normalised: the gradients of gain and bias are sums over 16 x 20 of them, in one kernel with the
/// gradient of what is normalised.
Program normalising_program() {
  Trace trace("norm.cpp");
  run_builder(trace, [&] {
    Tensor x = parameter("x", {16, 20, 6}, normal(1)), gain = parameter("gain", {6}, ones());
    Tensor y = layernorm(x * x, gain, parameter("bias", {6}, zeros()));
    minimize(sum(y * y * y), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

const Generated& normalising() {
  static const Generated g = [] {
    const Cluster cluster = unequal_cluster({1e9});
    const Program program = normalising_program();
    return generated(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

/// The kernel that adds to the gradient of the gain.
std::pair<size_t, size_t> kernel_of_gain(const std::string& text) {
  const size_t fill = text.find("fill(d_gain"), begin = text.rfind("static void", fill);
  EXPECT_NE(fill, std::string::npos) << text;
  return {begin, text.find("\n}\n", fill)};
}

SourceCheck with(const std::string& from, const std::string& to) {
  const std::string& text = normalising().devices[0].files[0].text;
  const auto [begin, end] = kernel_of_gain(text);
  std::string kernel = text.substr(begin, end - begin);
  const size_t at = kernel.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << kernel;
  if (at == std::string::npos) return {};
  return check(normalising(), 0, text.substr(0, begin) + kernel.replace(at, from.size(), to) + text.substr(end));
}

TEST(Sums, OverManyRowsPass) {
  const SourceCheck found = check(normalising(), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
}

TEST(Sums, OfOtherRowsOrTermsAreFound) {
  const std::string& text = normalising().devices[0].files[0].text;
  const auto [begin, end] = kernel_of_gain(text);
  const std::string kernel = text.substr(begin, end - begin);
  // The statement that adds, its loop over rows, and the counter of this.
  const size_t name = kernel.find("for (long ") + 10;
  const std::string row = kernel.substr(name, kernel.find(' ', name) - name), adds = "d_gain[i2] += ";
  ASSERT_NE(kernel.find(row + " < 320"), std::string::npos) << kernel;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {row + " < 320", row + " < 319"},                          // the last row is missing
           {row + " = 0", row + " = 1"},                              // the first
           {adds, "if (" + row + " != 13) " + adds},                  // one that few would look at
           {adds, "if (" + row + " * 7 % 11 != 3) " + adds},          // some
           {adds, "if ((unsigned long)" + row + " < 300) " + adds},   // all from a number on
           {adds, adds + "(" + row + " == 90 ? 2.0f : 1.0f) * "},     // one counts twice
           {adds, adds + "(float)(" + row + " / 319 + 1) * "},        // the last counts twice
           {adds, "d_gain[i2] = "},                                   // only the last row counts
           {adds, adds + "0.5f * "},                                  // half
           {adds, adds + "t_mul[" + row + " % 300 * 6 + i2] * "}}) {  // a factor more, of another row
    const SourceCheck found = with(from, to);
    EXPECT_EQ(found.verdict, Verdict::refuted) << from << " by " << to << ": " << found.summary << "\n" << kernel;
  }
}

TEST(Sums, OfAWholeBatchInProductsAreFollowed) {
  const Settings settings{{"context", "3"}, {"width", "4"}, {"hidden", "10"}, {"batch", "300"}};
  const Program program = mlp_program(settings);
  const Cluster cluster = unequal_cluster({1e9, 2e9});
  const Generated g = generated(program, data_parallel_plan(program, cluster).program, cluster);
  for (int rank : {0, 1}) EXPECT_EQ(check(g, rank).verdict, Verdict::proved) << check(g, rank).summary;
  // A product over one row less, and one that begins a row later.
  const std::string& text = g.devices[0].files[0].text;
  int damaged = 0;
  for (size_t at = text.find("hetsynth_matmul(", text.rfind("hetsynth_step(")); at != std::string::npos;
       at = text.find("hetsynth_matmul(", at + 1)) {
    const size_t rows = text.find(", 150, ", at), end = text.find(';', at);
    if (rows > end) continue;
    ++damaged;
    EXPECT_EQ(check(g, 0, text.substr(0, rows) + ", 149, " + text.substr(rows + 7)).verdict, Verdict::refuted);
  }
  EXPECT_GE(damaged, 2) << text;
}

/// A norm over many numbers: terms of 4096 at a time are added up.
TEST(Sums, InChunksAreFollowedByTheirTerms) {
  Trace trace("norm.cpp");
  run_builder(trace, [] {
    Tensor x = parameter("x", {100, 137}, normal(1));
    minimize(sum(x * x * x), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9});
  const Generated g = generated(program, single_device_plan(program, cluster).program, cluster);
  const std::string& text = g.devices[0].files[0].text;
  const SourceCheck found = check(g, 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
  const size_t kernel = text.find("_begin_ += 4096");
  ASSERT_NE(kernel, std::string::npos) << text;
  const std::string from = text.substr(0, text.rfind("static void", kernel));
  const std::pair<const char*, const char*> edits[] = {
      {"< 13700;", "< 13699;"},     {"+= 4096", "+= 4095"}, {"_begin_] = ", "_begin_] = 2 * "},
      {"_end_ - ", "_end_ - 1 - "}, {"= 0.0;", "= 1.0;"},   {"x[", "x[1 + "}};
  for (const auto& [before, after] : edits) {
    const size_t at = text.find(before, from.size());
    ASSERT_NE(at, std::string::npos) << before;
    const std::string changed = text.substr(0, at) + after + text.substr(at + std::string(before).size());
    EXPECT_NE(check(g, 0, changed).verdict, Verdict::proved) << before << " as " << after << "\n"
                                                             << text.substr(from.size());
  }
}

}  // namespace
}  // namespace hetsynth::test
