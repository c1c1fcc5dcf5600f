// Every model of examples/ that can be taken in turns, as a pipeline: the same step by proof and by the numbers, with
// one and two devices a stage, and with stages that have two segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/loop_schedule.h"
#include "dsl/transform/turns.h"
#include "synth/baselines/baselines.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/memory.h"
#include "synth/stages/group_costs.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_plan.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"
#include "verify/rules/form.h"
#include "verify/verify.h"

namespace hetsynth::testing {
namespace {

using namespace synth;

/// So many cpu devices of this machine with the names of the cluster's.
Cluster devices_alike(int count) {
  Cluster out = local_cluster(count);
  for (Device& device : out.devices) device.memory_bytes = 0;
  return out;
}

/// The positions in as many segments of about the same length, at places where little crosses.
StageCuts even_cuts(const StageProblem& problem, std::vector<int> stages) {
  StageCuts out;
  const int segments = int(stages.size());
  for (int s = 1; s < segments; ++s) {
    const int wish = problem.positions() * s / segments;
    const int last = out.ends.empty() ? 0 : out.ends.back();
    int best = std::max(last + 1, wish);
    for (const int cut : problem.cuts)
      if (cut > last && std::abs(cut - wish) < std::abs(best - wish) + (best == wish ? 1'000 : 0)) best = cut;
    out.ends.push_back(best);
  }
  out.ends.push_back(problem.positions());
  out.stage = std::move(stages);
  return out;
}

struct Pipelined {
  Program program;
  Plan plan;
  Cluster cluster;
};

Pipelined pipelined(const Program& whole, int64_t turns, const std::vector<int>& stages, int group_size) {
  Pipelined out{take_turns(whole, {turns}).program.value(), {}, {}};
  const int count = group_size * (1 + *std::ranges::max_element(stages));
  out.cluster = devices_alike(count);
  const auto analysis = std::make_shared<const Analysis>(out.program, 1);
  const StagePositions positions = stage_positions(out.program);
  const Cluster one = devices_alike(group_size);
  SynthesisOptions quick;
  quick.effort = Effort::quick;
  const Plan group = synthesize(out.program, one, quick);
  const DeviceGroups groups = groups_of(out.cluster, group_size);
  const StageProblem problem = stage_problem(group_size > 1 ? analysis : Analysis::of_one_device(*analysis),
                                             out.cluster, groups, group.program, positions);
  SpmdProgram program = staged_plan(out.program, group.program, positions, even_cuts(problem, stages));
  const Problem priced(analysis, out.cluster, program.mesh);
  const std::vector<PartCost> parts = part_costs(out.program, program, price_instructions(priced, program));
  program.schedules[0].order =
      one_forward_one_backward(parts, turns, std::vector<int>(stages.size(), 3), Sending::in_place).order;
  out.plan = identify_plan(out.program, out.cluster);
  for (const MemoryBreakdown& peak : synth::memory_at_peak(priced, program)) {
    out.plan.prediction.devices.emplace_back();
    out.plan.prediction.devices.back().memory_bytes = peak.total();
  }
  out.plan.program = std::move(program);
  return out;
}

class InStages : public ::testing::TestWithParam<ListedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, InStages, ::testing::ValuesIn(models_with_turns()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(InStages, IsProvedAndTrainsAlike) {
  const TracedModel traced = trace_model(GetParam(), GetParam().tiny);
  const int64_t turns = possible_turns(traced.program).back();
  for (const auto& [stages, group_size] : std::vector<std::pair<std::vector<int>, int>>{
           {{0, 1}, 1}, {{0, 1, 2}, 1}, {{0, 1, 0}, 1}, {{0, 1, 0, 1}, 1}, {{0, 1}, 2}}) {
    const Pipelined at = pipelined(traced.program, turns, stages, group_size);
    const std::string what = ::testing::PrintToString(stages) + " of " + std::to_string(group_size);
    const auto flaw = flaw_of(at.program, at.plan.program);
    ASSERT_FALSE(flaw) << what << ": " << flaw->text;
    EXPECT_GT(at.plan.program.schedules[0].parts.size(), stages.size()) << what;
    const Verification proof = verify(at.program, at.plan.program);
    EXPECT_EQ(proof.verdict, Verdict::proved) << what << ": " << proof.summary << "\n" << proof.counterexample.text;
    for (int rank = 0; rank < int(at.cluster.devices.size()); ++rank) {
      const double arena = double(generate(at.program, at.plan.program, at.cluster, rank).arena_bytes);
      const double planned = double(at.plan.prediction.devices[size_t(rank)].memory_bytes);
      // Turns that are written out may add a gradient where it is computed, which the plan gives a place of its own.
      EXPECT_LT(arena, 1.1 * planned + 4096) << what << ", rank " << rank;
      EXPECT_LT(planned, 1.3 * arena + 4096) << what << ", rank " << rank;
    }
    EXPECT_LT(train_on_both(at.program, at.plan, at.cluster, 3).largest_difference(), loss_bound) << what;
  }
}

}  // namespace
}  // namespace hetsynth::testing
