// Every model of examples/gallery: its published size, and at its tiny size the whole way from the file to checked
// source and equal losses on one rank and on three uneven ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/interface/device_program.h"
#include "runtime/training/generated_check.h"
#include "synth/planner/synthesize.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

class Gallery : public ::testing::TestWithParam<ListedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, Gallery, ::testing::ValuesIn(gallery_models()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(Gallery, HasThePublishedNumberOfParameters) {
  const ListedModel& model = GetParam();
  const TracedModel traced = trace_model(model, model.published);
  EXPECT_EQ(traced.code->warnings(), "");
  if (model.count_text.empty()) return;
  EXPECT_NEAR(double(model.counted_parameters(traced.program)), double(model.count), double(model.count_rounding));
}

TEST_P(Gallery, IsProvedAndTrainsAlikeOnOneRankAndOnThreeUnevenOnes) {
  constexpr int64_t steps = 10;
  const ListedModel& model = GetParam();
  const TracedModel traced = trace_model(model, model.tiny);
  const Cluster three = three_uneven_devices();
  const Plan plan = synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}});
  ASSERT_EQ(plan.program.mesh.device_count(), 3);
  const Verification proof = verify(traced.program, plan.program);
  EXPECT_EQ(proof.verdict, Verdict::proved) << proof.summary;
  for (int rank = 0; rank < 3; ++rank) {
    const DeviceProgram device = generate(traced.program, plan.program, three, rank);
    const SourceCheck found = check_source(traced.program, plan.program, rank_source(device), source_options());
    EXPECT_EQ(found.verdict, Verdict::proved) << "rank " << rank << ", line " << found.line << ": " << found.summary;
  }
  const TwoRuns runs = train_on_both(traced.program, plan, three, steps);
  EXPECT_LT(runs.largest_difference(), loss_bound) << ::testing::PrintToString(runs.alone) << "\n"
                                                   << ::testing::PrintToString(runs.together);
  EXPECT_THAT(runs.alone, ::testing::Each(::testing::Truly([](double loss) { return std::isfinite(loss); })));
}

}  // namespace
}  // namespace hetsynth::testing
