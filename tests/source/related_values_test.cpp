// Values in memory that belong together: what agrees by what they are is accepted, what only looks like it is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baselines.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

using ::testing::HasSubstr;

/// Attention whose bias gets a gradient: on cuda devices its gradient is made of parts, with the weights and their
/// gradient in memory, and row sums that are taken from the result. Queries have as many features as values.
Program biased_attention() {
  Trace trace("attention.cpp");
  run_builder(trace, [&] {
    Tensor q = parameter("q", {3, 7, 2, 4}, normal(1)), k = parameter("k", {3, 7, 2, 4}, normal(1));
    Tensor v = parameter("v", {3, 7, 2, 4}, normal(1)), bias = parameter("bias", {2, 7, 7}, normal(1));
    Tensor mixed = einsum("bhts,bshd->bthd", softmax(einsum("bthd,bshd->bhts", q, k) + bias, -1), v);
    minimize(sum(mixed * mixed * mixed), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

const Generated& biased() {
  static const Generated g = [] {
    const Cluster cluster = cuda_devices({1e9});
    const Program program = biased_attention();
    return generated_for_cuda(program, single_device_plan(program, cluster).program, cluster);
  }();
  return g;
}

/// The launch of the row sums: what stands before its three arguments, and these.
struct RowSums {
  std::string before, result, gradient, sums, after;
};
RowSums row_sums() {
  const std::string& host = biased().devices[0].files[0].text;
  std::smatch found;
  const std::regex call(
      "softmax_dot\\([^\\n]*\\n  if \\(launch\\(context, compute_stream, [^\\n]*, 256, "
      "([a-z_0-9]+), ([a-z_0-9]+), ([a-z_0-9]+)\\)\\)");
  EXPECT_TRUE(std::regex_search(host, found, call)) << host;
  return {host.substr(0, size_t(found.position(1))), found[1], found[2], found[3],
          host.substr(size_t(found.position(3) + found.length(3)))};
}

SourceCheck with(const std::string& result, const std::string& gradient) {
  const RowSums at = row_sums();
  return check(biased(), 0, at.before + result + ", " + gradient + ", " + at.sums + at.after);
}

TEST(RelatedValues, RowSumsOfAGradientMayBeTakenFromTheResult) {
  const RowSums at = row_sums();
  const SourceCheck found = with(at.result, at.gradient);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.line << ": " << found.summary;
  EXPECT_EQ(with(at.gradient, at.result).verdict, Verdict::proved);  // a product may be taken either way round
}

TEST(RelatedValues, RowSumsOfAnythingElseAreFound) {
  const RowSums at = row_sums();
  for (const auto& [result, gradient] : std::vector<std::pair<std::string, std::string>>{
           {at.result, at.result}, {at.gradient, at.gradient}, {"q", at.gradient}, {at.result, "q"}, {"q", "q"}}) {
    const SourceCheck found = with(result, gradient);
    EXPECT_EQ(found.verdict, Verdict::refuted) << result << " * " << gradient << ": " << found.summary;
    EXPECT_THAT(found.summary, HasSubstr("by the text and"));
  }
}

TEST(RelatedValues, RowSumsOfOtherRowsAreFound) {
  const std::string& kernels = biased().devices[0].files[1].text;
  const size_t at = kernels.find("softmax_dot("), begin = kernels.find("extern", at),
               end = kernels.find("\n}\n", begin);
  ASSERT_TRUE(at != std::string::npos && end != std::string::npos) << kernels;
  const std::string kernel = kernels.substr(begin, end - begin);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"at_t = row % 7", "at_t = 6 - row % 7"},                    // the rows the other way round
           {"at_h = row / 7 % 2", "at_h = 1 - row / 7 % 2"},            // the other head
           {"at_h * 4 + at_t * 8", "at_t * 4 + at_h * 28"},             // heads and rows exchanged, of one operand
           {"_four[v] * ", "_four[3 - v] * "},                          // features of one operand the other way round
           {"v < 4; ++v) {\n        d_", "v < 3; ++v) {\n        d_"},  // a feature too few
           {"_four[v] * ", "_four[v] + "},                              // a sum for a product
           {"[row] = ", "[row] = 0.5f * "}}) {                          // half of it
    const size_t first = kernel.find(from);
    ASSERT_NE(first, std::string::npos) << from << " is not in\n" << kernel;
    std::string changed = kernel;
    changed.replace(first, from.size(), to);
    const SourceCheck found = check_kernels(biased(), 0, kernels.substr(0, begin) + changed + kernels.substr(end));
    EXPECT_EQ(found.verdict, Verdict::refuted) << from << " by " << to << ": " << found.summary << "\n" << changed;
  }
}

/// Partial sums over nothing are zero, whichever of them it is.
TEST(RelatedValues, SumsOfDevicesWithoutSamplesAreZero) {
  for (Program program : {mlp_program(), gpt_program()}) {
    Cluster cluster = cuda_devices({1e9, 1e9});
    SpmdProgram plan = data_parallel_plan(program, cluster).program;
    for (BoundaryTable& table : plan.tables) table.bounds = {0, table.extent, table.extent};
    const Generated g = generated_for_cuda(program, plan, cluster);
    for (int rank : {0, 1}) {
      const SourceCheck found = check(g, rank);
      EXPECT_EQ(found.verdict, Verdict::proved) << rank << " line " << found.line << ": " << found.summary;
    }
  }
}

/// Patches of an image in an order of their own, copied to memory, normalised and given a gradient: where the image is
/// gone by then, the copy tells what it was.
Program merging_program() {
  Trace trace("merge.cpp");
  run_builder(trace, [&] {
    auto norm = [](const std::string& name, Tensor x) {
      return layernorm(x, parameter(name + ".gain", {x.size(-1)}, ones()),
                       parameter(name + ".bias", {x.size(-1)}, zeros()));
    };
    Tensor x = norm("first", parameter("x", {3, 4, 4, 2}, normal(1)));
    Tensor tiles = transpose(reshape(x + relu(x), {3, 2, 2, 2, 2, 2}), {0, 1, 3, 4, 2, 5});
    Tensor merged = norm("second", reshape(tiles, {3, 2, 2, 8}));
    minimize(sum(merged * merged * merged), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  return differentiate(trace);
}

/// The step with every tensor called by a number.
std::string without_names(const std::string& whole) {
  const size_t step = whole.rfind("hetsynth_step(");
  std::string text = whole.substr(step);
  std::set<std::string> names;
  const std::regex declared("  float\\* const ([a-z_0-9]+) = ");
  for (std::sregex_iterator at(text.begin(), text.end(), declared), end; at != end; ++at) names.insert((*at)[1]);
  EXPECT_GT(names.size(), 10U);
  int number = 0;
  for (const std::string& name : names)
    text = std::regex_replace(text, std::regex("\\b" + name + "\\b"), "t" + std::to_string(++number) + "t");
  return whole.substr(0, step) + text;
}

TEST(RelatedValues, NamesDecideNothing) {
  for (Program program : {mlp_program(), gpt_program(), merging_program(), biased_attention()})
    for (bool cuda : {false, true}) {
      const Cluster cluster = cuda ? cuda_devices({1e9}) : unequal_cluster({1e9});
      const SpmdProgram plan = single_device_plan(program, cluster).program;
      const Generated g = cuda ? generated_for_cuda(program, plan, cluster) : generated(program, plan, cluster);
      const SourceCheck found = check(g, 0, without_names(g.devices[0].files[0].text));
      EXPECT_EQ(found.verdict, Verdict::proved) << cuda << " line " << found.line << ": " << found.summary;
    }
}

}  // namespace
}  // namespace hetsynth::test
