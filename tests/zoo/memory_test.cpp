// Memory as planned against the arenas of the generated programs: every model of examples/ at its tiny size.
#include <gtest/gtest.h>

#include "codegen/device_program.h"
#include "synth/synthesize.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

/// What a handful of scalars in slots of 64 bytes amounts to: a model of a few KiB is mostly those.
constexpr double small = 2048;

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

}  // namespace
}  // namespace hetsynth::testing
