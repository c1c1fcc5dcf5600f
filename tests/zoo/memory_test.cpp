// Memory as planned against the arenas of the generated programs: every model of examples/ at its tiny size.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "codegen/device_program.h"
#include "dsl/base/error.h"
#include "dsl/spmd/recomputation.h"
#include "synth/synthesize.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

/// What a handful of scalars in slots of 64 bytes amounts to: a model of a few KiB is mostly those.
constexpr double small = 2048;
/// After so many searches the plans of all models are those that planning ends with.
constexpr int64_t searches_that_settle = 17;

TEST(PlannedMemory, HoldsTheArenaOfEveryModel) {
  for (const ListedModel& model : listed_models()) {
    if (!model.first_of_file) continue;
    const TracedModel traced = trace_model(model, model.tiny);
    const Cluster three = three_uneven_devices();
    for (const Plan& plan : {synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}}),
                             data_parallel_plan(traced.program, three, RatioRule::proportional)}) {
      for (int rank = 0; rank < 3; ++rank) {
        const double arena = double(generate(traced.program, plan.program, three, rank).arena_bytes);
        const double planned = double(plan.prediction.devices[size_t(rank)].memory_bytes);
        EXPECT_GE(planned + small, 0.9 * arena) << model.name << " rank " << rank;
        EXPECT_LE(planned, 1.1 * arena) << model.name << " rank " << rank;
      }
    }
  }
}

/// With a fifth less memory than the fastest plan takes: what is kept shrinks, or values are made again.
TEST(PlannedMemory, TightPlansAreRightAndFit) {
  int models = 0, recomputing = 0;
  for (const ListedModel& model : listed_models()) {
    if (!model.first_of_file) continue;
    const TracedModel traced = trace_model(model, model.tiny);
    // To the end, as a limit by the clock would let a busy machine meet fewer plans; but for the last bound of
    // BERT-MoE, which takes ten seconds and no longer changes the plan.
    const SynthesisOptions options{.time_limit_seconds = {}, .progress = [](const SynthesisProgress& now) {
                                     return !now.best_seconds || now.searches < searches_that_settle;
                                   }};
    Cluster three = three_uneven_devices();
    const Plan roomy = synthesize(traced.program, three, options);
    for (size_t d = 0; d < three.devices.size(); ++d)
      three.devices[d].memory_bytes = roomy.prediction.devices[d].memory_bytes * 8 / 10 + int64_t(small);
    std::optional<Plan> tight;
    try {
      tight = synthesize(traced.program, three, options);
    } catch (const UserError& error) {
      ASSERT_EQ(error.code(), ExitCode::infeasible) << model.name << error.what();
      continue;
    }
    ++models;
    const std::vector<char> again = made_again(tight->program);
    recomputing += std::count(again.begin(), again.end(), 1) > 0;
    const Verification proof = verify(traced.program, tight->program);
    EXPECT_EQ(proof.verdict, Verdict::proved) << model.name << ": " << proof.summary;
    EXPECT_LT(train_on_both(traced.program, *tight, three, 3).largest_difference(), loss_bound) << model.name;
    for (int rank = 0; rank < 3; ++rank) {
      const double arena = double(generate(traced.program, tight->program, three, rank).arena_bytes);
      EXPECT_LE(0.9 * arena, double(three.devices[size_t(rank)].memory_bytes) + small) << model.name;
    }
  }
  EXPECT_GE(models, 10);
  EXPECT_GE(recomputing, 5);
}

}  // namespace
}  // namespace hetsynth::testing
