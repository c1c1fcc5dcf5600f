// Memory as planned against the arenas of the generated programs: every model of examples/ at its tiny size.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "codegen/passes/lower.h"
#include "dsl/base/error.h"
#include "dsl/spmd/recomputation.h"
#include "hetsynth/build_paths.h"
#include "runtime/launch.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/schedule.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

/// What a handful of scalars in slots of 64 bytes amounts to: a model of a few KiB is mostly those.
constexpr double small = 2048;
/// After so many searches the plans of all models are those that planning ends with.
constexpr int64_t searches_that_settle = 17;

/// Every model planned by search and data parallel on three devices: visit(name, program, cluster, plan).
template <class Visit>
void each_tiny_plan(const Visit& visit) {
  const Cluster three = three_uneven_devices();
  for (const ListedModel& model : listed_models()) {
    if (!model.first_of_file) continue;
    const TracedModel traced = trace_model(model, model.tiny);
    for (const Plan& plan : {synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}}),
                             data_parallel_plan(traced.program, three, RatioRule::proportional)})
      visit(model.name, traced.program, three, plan);
  }
}

TEST(PlannedMemory, HoldsTheArenaOfEveryModel) {
  each_tiny_plan([](const std::string& name, const Program& program, const Cluster& three, const Plan& plan) {
    for (int rank = 0; rank < 3; ++rank) {
      const double arena = double(generate(program, plan.program, three, rank).arena_bytes);
      const double planned = double(plan.prediction.devices[size_t(rank)].memory_bytes);
      EXPECT_GE(planned + small, 0.9 * arena) << name << " rank " << rank;
      EXPECT_LE(planned, 1.1 * arena) << name << " rank " << rank;
    }
  });
}

/// Sums of their gradients are stored from one to the next.
TEST(PlannedMemory, HoldsTheArenaOfMicroBatches) {
  const Cluster three = three_uneven_devices();
  for (const ListedModel& model : listed_models()) {
    if (model.name != "gpt" && model.name != "mlp") continue;
    for (const char* count : {"2", "4", "8"}) {
      Settings settings = model.tiny;
      settings["micro_batches"] = count;
      const TracedModel traced = trace_model(model, settings);
      const Plan plan = synthesize(traced.program, three, {.time_limit_seconds = 5, .progress = {}});
      for (int rank = 0; rank < 3; ++rank) {
        const double arena = double(generate(traced.program, plan.program, three, rank).arena_bytes);
        const double planned = double(plan.prediction.devices[size_t(rank)].memory_bytes);
        EXPECT_NEAR(planned, arena, 0.1 * arena + small) << model.name << ", " << count << ", rank " << rank;
      }
    }
  }
}

/// Whether a view has storage in which a value lies, or a view of that view.
bool lies_in_a_view(const Program& program, const SpmdProgram& spmd, const std::vector<char>& stored, ValueId value) {
  return std::ranges::any_of(spmd.instructions, [&](const Instruction& reader) {
    return reader.opcode == Opcode::compute && reader.operands == std::vector{value} &&
           program[spmd.values[reader.result].node].body.kind() == ExprKind::input &&
           (stored[reader.result] || lies_in_a_view(program, spmd, stored, reader.result));
  });
}

/// What the planner takes for made inside of a loop has no storage in generated code.
TEST(PlannedMemory, FusedTensorsAreNotStored) {
  int fused = 0;
  each_tiny_plan([&](const std::string& name, const Program& program, const Cluster& three, const Plan& plan) {
    const synth::Problem problem(program, three);
    const std::vector<char> stored = synth::stored_values(problem, plan.program, {problem.cost, plan.program});
    for (int rank = 0; rank < 3; ++rank) {
      const codegen::Lowered lowered = codegen::lower(program, plan.program, rank);
      for (size_t v = 0; v < stored.size(); ++v) {
        if (stored[v] || !problem.cost.fused(plan.program.values[v].node)) continue;
        ++fused;
        const bool has_storage = lowered.memory.offset_bytes[v] >= 0 && lowered.layouts.of[v].buffer == ValueId(v) &&
                                 lowered.local.values[v].type.shape.size() > 0;
        EXPECT_TRUE(!has_storage || lies_in_a_view(program, plan.program, stored, ValueId(v)))
            << name << " rank " << rank << ": " << plan.program.values[v].name;
      }
    }
  });
  EXPECT_GE(fused, 1000);
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
    const std::optional<Plan> tight = plan_in_part_of_memory(traced.program, options, 80, int64_t(small), &three);
    if (!tight) continue;
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

class PublishedSizes : public ::testing::TestWithParam<const char*> {};

/// Nothing is run: what generated code asks for is known when it is written. Transfers under way take up to a 32nd of
/// the memory beyond the plan, and places left free between tensors some more.
TEST_P(PublishedSizes, GeneratedCodeFitsWhereThePlanDoes) {
  const Cluster cluster = load_cluster(GetParam());
  int models = 0;
  for (const ListedModel& model : listed_models()) {
    const TracedModel traced = trace_model(model, model.published);
    std::optional<Plan> plan;
    try {
      plan = synthesize(traced.program, cluster);
    } catch (const UserError& error) {
      ASSERT_EQ(error.code(), ExitCode::infeasible) << model.name << error.what();
      continue;
    }
    ++models;
    const Cluster ranks = ranks_of(*plan, cluster);
    for (int rank : ranks_that_differ(*plan)) {
      const double arena = double(generate(traced.program, plan->program, ranks, rank).arena_bytes);
      const double planned = double(plan->prediction.devices[size_t(rank)].memory_bytes);
      const double limit = double(ranks.devices[size_t(rank)].memory_bytes);
      EXPECT_LE(arena, limit + small) << model.name << " rank " << rank;
      EXPECT_LE(arena, 1.1 * planned + limit / 32 + small) << model.name << " rank " << rank;
    }
  }
  EXPECT_GE(models, 7);
}

INSTANTIATE_TEST_SUITE_P(PlannedMemory, PublishedSizes,
                         ::testing::Values(HETSYNTH_SOURCE_DIR "/examples/clusters/v100-p100.toml",
                                           HETSYNTH_SOURCE_DIR "/examples/clusters/mixed-five.toml",
                                           HETSYNTH_SOURCE_DIR "/examples/clusters/unequal.toml",
                                           HETSYNTH_SOURCE_DIR "/bench/clusters/five-of-three-kinds.toml"),
                         [](const auto& info) { return test_name(std::filesystem::path(info.param).stem().string()); });

}  // namespace
}  // namespace hetsynth::testing
