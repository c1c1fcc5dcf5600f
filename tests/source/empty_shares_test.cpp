// Ranks that hold nothing, or one element, of anything: generated programs pass the check.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/ir/operator.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/codegen/models.h"
#include "tests/source/fixture.h"
#include "tests/support/operator_plan.h"
#include "tests/support/plan_builder.h"
#include "verify/verify.h"

namespace hetsynth::test {
namespace {

void expect_passes(const Program& program, const SpmdProgram& plan, const std::string& what) {
  const std::vector<double> speeds(size_t(plan.mesh.device_count()), 1e9);
  for (const Generated& g :
       {generated(program, plan, unequal_cluster(speeds)), generated_for_cuda(program, plan, cuda_devices(speeds))})
    for (size_t rank = 0; rank < g.devices.size(); ++rank) {
      const SourceCheck found = check(g, int(rank));
      EXPECT_EQ(name(found.verdict), "proved")
          << what << " rank " << rank << " line " << found.line << ": " << found.summary << "\n"
          << g.devices[rank].files.front().text;
    }
}

/// Shares of `size` units: one element, none, and all the rest; a bound that the extent does not reach is its end.
std::vector<int64_t> uneven(int64_t size, size_t number) {
  const std::vector<int64_t> forms[] = {{0, 0, 1, size}, {0, 1, 1, size}, {0, size - 1, size, size}};
  std::vector<int64_t> out = forms[number % 3];
  for (int64_t& bound : out) bound = std::clamp<int64_t>(bound, 0, size);
  return out;
}

class EmptyShares : public ::testing::TestWithParam<std::string> {};

TEST_P(EmptyShares, OfEveryFactorPassTheCheck) {
  size_t plans = 0;
  for (const OperatorInfo& info : operator_list()) {
    if (info.name != GetParam()) continue;
    for (const OperatorSample& sample : info.samples) {
      const Program program = program_of(sample);
      const Node& node = program.nodes.back();
      for (int f = 0; f < int(node.space.factors.size()); ++f) {
        if (!can_split(program, f)) continue;
        const std::vector<int64_t> bounds = uneven(node.space.factors[size_t(f)].size, plans++);
        const SpmdProgram plan = split(program, f, bounds);
        ASSERT_EQ(name(verify(program, plan).verdict), "proved");
        expect_passes(program, plan, fmt::format("{} of {}", node.space.factors[size_t(f)].name, text(node.space)));
      }
    }
  }
  if (plans == 0) GTEST_SKIP() << "nothing of it can be split";
}

std::vector<std::string> names_with_samples() {
  std::vector<std::string> names;
  for (const OperatorInfo& info : operator_list())
    if (!info.samples.empty()) names.push_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(List, EmptyShares, ::testing::ValuesIn(names_with_samples()),
                         [](const auto& info) { return info.param; });

/// All of a softmax's reductions in parts, with what is moved between: maxima of nothing, sums of nothing, parts of
/// which some are empty gathered, scattered and exchanged.
TEST(EmptySharesOf, ASoftmaxInPartsPassTheCheck) {
  const Program p = softmax_layer(true, 8, 3, 4);
  PlanBuilder b(p, {{"tp", 4}});
  const int t = b.table("columns", 0, 4, {0, 1, 1, 2, 4}), rows = b.table("rows", 0, 8, {0, 0, 1, 8, 8});
  const ValueId x = b.leaf("x", {Placement::replicated()}), w = b.leaf("w", {Placement::sharded(1, t)});
  const std::vector<std::pair<std::string, int>> cut{{"n", t}};
  const ValueId o = b.compute("o", {x, w}, cut);
  const ValueId mx = b.all_gather(b.reduce_scatter(b.compute("mx", {o}, cut), 0, 0, rows, ReduceOp::max), 0);
  const ValueId e = b.compute("e", {o, mx}, cut);
  const ValueId s = b.all_gather(b.reduce_scatter(b.compute("s", {e}, cut), 0, 0, rows), 0);
  const ValueId q = b.compute("p", {b.all_gather(b.all_to_all(e, 0, 0, rows), 0), s}, cut);
  b.plan.loss = b.all_reduce(b.compute("loss", {q, mx}, cut), 0);
  b.final("w", b.compute("w_new", {w, b.compute("d_w", {x, q}, cut)}, cut));
  const Verification proof = verify(p, b.plan);
  ASSERT_EQ(name(proof.verdict), "proved") << proof.summary;
  expect_passes(p, b.plan, "softmax");
}

/// Where a rank holds nothing that is added to, no number may lead there.
TEST(EmptySharesOf, ATableAreNotAddedTo) {
  ProgramBuilder builder;
  builder.leaf("values", NodeKind::input, {4, 3});
  builder.leaf("rows", NodeKind::input, {4}, DType::i32);
  builder.general("out", "ic,i->vc", {"values", "rows"},
                  select(equal(Expr::input(1), Expr::factor(0)), Expr::input(0), 0.0), FactorKind::sum, {{'v', 5}});
  Program program = builder.program;
  program.outputs = {{"out", builder.id("out")}};
  const SpmdProgram plan = split(program, 0, {0, 5, 5});
  const Generated g = generated(program, plan, unequal_cluster({1e9, 1e9}));
  const std::string& text = g.devices[1].files.front().text;
  EXPECT_EQ(name(check(g, 1).verdict), "proved") << text;
  EXPECT_EQ(name(check(g, 1, replaced(text, "compute_out", "out_at_ < 0)", "out_at_ < 1)")).verdict), "refuted")
      << text;
}

TEST(EmptySharesOf, AByteModelPassTheCheck) {
  for (const std::vector<double>& ratio : {std::vector<double>{1, 1, 0}, {1000, 1, 1}}) {
    const Program program = mlp_program({{"hidden", "32"}, {"context", "4"}, {"batch", "48"}, {"width", "8"}});
    const Cluster cluster = unequal_cluster({1e9, 1e9, 1e9});
    SynthesisOptions options;
    options.pins.ratio = ratio;
    options.pins.mesh = {3};
    expect_passes(program, synthesize(program, cluster, options).program, fmt::format("ratio {}", ratio[0]));
  }
}

}  // namespace
}  // namespace hetsynth::test
