// What plans leave of a memory, and when they do not.
#include "synth/schedule/memory_budget.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synth/planner/synthesize.h"
#include "synth/schedule/memory_floor.h"
#include "tests/synth/programs.h"

namespace hetsynth {
namespace {

using ::testing::HasSubstr;
using testing_support::cluster_of_speeds;
using testing_support::fullest;
using testing_support::memory_to_fill;

/// On one device without copies there is one plan, so that what it needs is known.
struct OneDevice {
  SynthesisOptions options() const {
    SynthesisOptions out;
    out.pins.recompute = false;
    return out;
  }
  Plan with_memory(int64_t bytes) const {
    return synthesize(program, cluster_of_speeds({1e9}, 1e9, 1e-6, {bytes}), options());
  }
  Program program = testing_support::mlp(256, {64, 64, 64, 64, 64});
  int64_t need = fullest(with_memory(int64_t{1} << 40));
};

TEST(MemoryBudget, IsFilledOnlyWhereNothingGetsByWithLess) {
  const OneDevice one;
  for (int64_t memory : {memory_to_fill(one.need), one.need + 1, one.need})
    EXPECT_EQ(fullest(one.with_memory(memory)), one.need) << memory;

  // Of two devices neither needs to be full.
  const int64_t half = one.need * 6 / 10;
  const Plan plan = synthesize(one.program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {half, half}));
  EXPECT_LE(fullest(plan), half - half / 32);
}

TEST(MemoryBudget, IsFilledWherePlanningIsEndedEarly) {
  const OneDevice one;
  SynthesisOptions options = one.options();
  options.progress = [](const SynthesisProgress&) { return false; };
  const Plan plan = synthesize(one.program, cluster_of_speeds({1e9}, 1e9, 1e-6, {one.need + 1}), options);
  EXPECT_TRUE(plan.prediction.cut_short);
  EXPECT_EQ(fullest(plan), one.need);
}

TEST(MemoryBudget, AllOfItIsNamedWhereItDoesNotDo) {
  const OneDevice one;
  SynthesisOptions options = one.options();
  options.pins.ratio = {1, 0};  // the memory of the other device, which is large enough, does not help
  for (int percent : {99, 95, 80}) {
    const int64_t memory = one.need * percent / 100;
    try {
      synthesize(one.program, cluster_of_speeds({1e9, 1e9}, 1e9, 1e-6, {memory, int64_t{1} << 40}), options);
      FAIL() << "a plan within " << percent << " % was found";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::infeasible);
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("expected: at most {}", synth::bytes_text(double(memory)))));
    }
  }
}

TEST(MemoryBudget, APlanThatNeedsLittleMoreNearlyFits) {
  const OneDevice one;
  const Plan plan = one.with_memory(int64_t{1} << 40);
  for (const auto& [percent, nearly] : {std::pair{99, true}, {92, true}, {90, false}}) {
    synth::Problem problem(one.program, cluster_of_speeds({1e9}, 1e9, 1e-6, {one.need * percent / 100}));
    Prediction prediction = plan.prediction;
    prediction.devices[0].memory_limit_bytes = problem.cluster.devices[0].memory_bytes;
    const auto check = [&] { synth::check_memory_budget(problem, prediction, "a plan"); };
    try {
      check();
      FAIL() << percent;
    } catch (const UserError& error) {
      EXPECT_EQ(dynamic_cast<const synth::NearlyFits*>(&error) != nullptr, nearly) << percent;
      EXPECT_THAT(error.what(), HasSubstr("to mend:  use a smaller batch")) << percent;
    }
    try {
      synth::check_memory(problem, prediction, "a plan", "wait; or ");
      FAIL() << percent;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("to mend:  wait; or use a smaller batch")) << percent;
    }
  }
}

}  // namespace
}  // namespace hetsynth
