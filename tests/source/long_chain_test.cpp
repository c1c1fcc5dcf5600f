// Chains of operators that lie in no memory: the squares of all gradients are added up one after the other, and deep
// models have hundreds of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/baselines/peers/peers.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

/// A model with so many parameters of four elements and one of `rows` times as many, the norm of whose gradients is
/// bounded.
Program with_parameters(int count, int64_t rows = 1) {
  Trace trace("model.cpp");
  run_builder(trace, [&] {
    const Tensor x = synthetic_batch(6, 4, 3).samples;
    Tensor total = sum(square(parameter("table", {rows, 4}, normal(1))));
    for (int i = 0; i < count; ++i) {
      const Tensor term = mean(square(x + parameter("p" + std::to_string(i), {4}, normal(1))));
      total = total + term;
    }
    minimize(total, SGD{.learning_rate = 0.5, .momentum = 0, .clip_norm = 2});
  });
  return differentiate(trace);
}

/// A plan that keeps parts of gradients: what the squares add up to is partial.
SpmdProgram plan_of_parts(const Program& program, const Cluster& cluster) {
  for (const PeerPlan& peer : peer_plans(program, cluster))
    if (peer.name.find("ZeRO-3") != std::string::npos) return peer.plan->program;
  ADD_FAILURE() << "no peer divides gradients";
  return {};
}

TEST(LongChains, OfOneDeviceAreFollowed) {
  const Cluster cluster = unequal_cluster({1e9});
  for (int count : {190, 260, 900}) {
    const Program program = with_parameters(count);
    const SourceCheck found = check(generated(program, single_device_plan(program, cluster).program, cluster), 0);
    EXPECT_EQ(found.verdict, Verdict::proved) << count << " parameters: " << found.summary;
  }
}

TEST(LongChains, OfSeveralDevicesAreFollowed) {
  const Cluster cluster = unequal_cluster({1e9, 3e9, 2e9});
  const Program program = with_parameters(230);
  const Generated g = generated(program, plan_of_parts(program, cluster), cluster);
  for (int rank = 0; rank < 3; ++rank) {
    const SourceCheck found = check(g, rank);
    EXPECT_EQ(found.verdict, Verdict::proved) << "rank " << rank << ": " << found.summary;
  }
}

/// The chain is what is computed for each element, and another one is its gradient.
TEST(LongChains, OfElementsAreFollowed) {
  Trace trace("model.cpp");
  run_builder(trace, [] {
    Tensor x = synthetic_batch(6, 4, 3).samples;
    const Tensor p = parameter("p", {4}, normal(1));
    for (int i = 0; i < 300; ++i) x = sin(x * p);
    minimize(mean(square(x)), SGD{.learning_rate = 0.5, .momentum = 0});
  });
  const Program program = differentiate(trace);
  const Cluster cluster = unequal_cluster({1e9});
  const SourceCheck found = check(generated(program, single_device_plan(program, cluster).program, cluster), 0);
  EXPECT_EQ(found.verdict, Verdict::proved) << found.summary;
}

/// Text that leaves one of the squares out: also where there are few beside those of very many elements.
TEST(LongChains, ASquareThatIsLeftOutIsFound) {
  const Cluster cluster = unequal_cluster({1e9});
  struct Case {
    int count;
    int64_t rows;
    std::string square;
  };
  for (const Case& c : {Case{210, 1, "d_p131_squares"}, Case{6, 150'000, "d_p3_squares"}}) {
    const Program program = with_parameters(c.count, c.rows);
    const Generated g = generated(program, single_device_plan(program, cluster).program, cluster);
    const std::string& text = g.devices[0].files.front().text;
    const std::string term = " + " + c.square + "[0]";
    ASSERT_NE(text.find(term), std::string::npos) << text;
    EXPECT_EQ(check(g, 0, replaced(text, "", term, "")).verdict, Verdict::refuted) << c.count;
  }
}

}  // namespace
}  // namespace hetsynth::test
