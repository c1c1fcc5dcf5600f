// Text whose tensors are seen through views is followed to its end: before and behind every library call and loop.
#include "tests/codegen/views.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "dsl/ir/trace.h"
#include "dsl/transform/differentiate.h"
#include "hetsynth/hetsynth.h"
#include "synth/planner/synthesize.h"
#include "tests/codegen/harness.h"
#include "tests/source/fixture.h"

namespace hetsynth::test {
namespace {

template <class Model>
Program training_of(const Model& model) {
  Trace trace("test.cpp");
  run_builder(trace, [&] { minimize(mean(square(model() + 0.5)), SGD{.learning_rate = 0.5, .momentum = 0}); });
  return differentiate(trace);
}

void expect_followed(const Generated& g) {
  for (size_t rank = 0; rank < g.devices.size(); ++rank) {
    const SourceCheck result = check(g, int(rank));
    EXPECT_EQ(result.verdict, Verdict::proved)
        << "rank " << rank << " line " << result.line << ": " << result.summary << "\n"
        << text(g.reference) << g.devices[rank].files.front().text;
  }
}

void expect_followed(const Program& program) {
  const Cluster one = unequal_cluster({1e9}), three = unequal_cluster({1e9, 3e9, 2e9}), gpu = cuda_devices({1});
  expect_followed(generated(program, single_device_plan(program, one).program, one));
  expect_followed(generated(program, data_parallel_plan(program, three, RatioRule::proportional).program, three));
  expect_followed(generated_for_cuda(program, single_device_plan(program, gpu).program, gpu));
}

RC_GTEST_PROP(SourceOfViews, AroundEveryLibraryCallIsFollowed, ()) {
  expect_followed(training_of([] { return viewed(computed_of_views(*rc::gen::inRange(0, operators_of_views))); }));
  RC_ASSERT(!::testing::Test::HasFailure());
}

/// As it was found: the loop's result lay as the product behind it wants to read it, each turn in many pieces.
TEST(SourceOfViews, LoopsWhoseResultIsReshapedAtOnceLieTurnByTurn) {
  expect_followed(training_of([] {
    const Tensor states = lstm(parameter("x", {12, 2, 4}, zeros()), lstm_weights("l", 4, 3));
    return matmul(reshape(states, {12, 6}), parameter("w", {6, 4}, zeros()));
  }));
  expect_followed(training_of([] {
    const Tensor states = gru(parameter("x", {12, 5, 4}, zeros()), gru_weights("g", 4, 3));
    return matmul(reshape(states, {12, 15}), parameter("w", {15, 4}, zeros()));
  }));
}

/// As it was found: a row's address went down from its end, before it was in its memory again.
TEST(SourceOfViews, SumsOverRowsOfReversedTensorsAreFollowed) {
  const Program program = training_of([] {
    const Tensor x = parameter("x", {4, 12}, zeros()) * parameter("w", {12}, zeros());
    return mean(flip(reshape(x, {4, 3, 4}), 1), {2});
  });
  expect_followed(program);
  const Cluster one = unequal_cluster({1e9});
  const Generated g = generated(program, single_device_plan(program, one).program, one);
  const std::string& text = g.devices[0].files.front().text;
  const std::string sum = "row_sum(t_mul + (i0 * 12 - i1 * 4 + 8), 4)";
  ASSERT_NE(text.find(sum), std::string::npos) << text;
  // What people may write: the pointer goes down itself.
  EXPECT_EQ(check(g, 0, edited(text, sum, "row_sum(t_mul + 8 + i0 * 12 - i1 * 4, 4)")).verdict, Verdict::proved);
  EXPECT_EQ(check(g, 0, edited(text, sum, "row_sum(t_mul + i0 * 12 - i1 * 4 + 4, 4)")).verdict, Verdict::refuted);
}

}  // namespace
}  // namespace hetsynth::test
