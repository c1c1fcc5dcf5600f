// Every model of examples/ that can be taken in turns, as a pipeline: the same step by proof and by the numbers, with
// one, two and, on two axes, four devices a stage, and with stages that have two segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codegen/interface/device_program.h"
#include "dsl/spmd/loop_schedule.h"
#include "dsl/transform/turns.h"
#include "runtime/training/generated_check.h"
#include "synth/baselines/baselines.h"
#include "synth/memory/recompute.h"
#include "synth/mesh/device_subsets.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/memory.h"
#include "synth/stages/group_costs.h"
#include "synth/stages/group_plans.h"
#include "synth/stages/stage_schedule.h"
#include "synth/stages/staged_plan.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/clusters.h"
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

/// The plan of one group: of four devices on two axes.
GroupPlan plan_of_group(const Program& step, const std::shared_ptr<const Analysis>& analysis, const Cluster& one) {
  if (one.devices.size() == 4) {
    const auto of_axes = [&](int axes) { return std::make_shared<const Analysis>(step, axes); };
    return group_plans(of_axes, one, group_meshes(one).at(1)).front();
  }
  SynthesisOptions quick;
  quick.effort = Effort::quick;
  return {one.devices.size() > 1 ? analysis : Analysis::of_one_device(*analysis), synthesize(step, one, quick).program};
}

/// All that stages could make again for their backward passes.
SpmdProgram with_all_recomputed(const Problem& priced, const SpmdProgram& staged, int group_size) {
  std::vector<ValueId> again;
  for (int device = 0; device < staged.mesh.device_count(); device += group_size)
    for (const Absence& absence : recompute_order(priced, staged, device, hard_to_check_again))
      again.push_back(absence.value);
  EXPECT_FALSE(again.empty());
  return with_recomputed(priced, staged, again);
}

Pipelined pipelined(const Program& whole, int64_t turns, const std::vector<int>& stages, int group_size, bool again) {
  Pipelined out{take_turns(whole, {turns}).program.value(), {}, {}};
  const int count = group_size * (1 + *std::ranges::max_element(stages));
  out.cluster = devices_alike(count);
  const auto analysis = std::make_shared<const Analysis>(out.program, 1);
  const StagePositions positions = stage_positions(out.program);
  const GroupPlan group = plan_of_group(out.program, analysis, devices_alike(group_size));
  const DeviceGroups groups = groups_of(out.cluster, group_size);
  const StageProblem problem = stage_problem(group.analysis, out.cluster, groups, group.program, positions);
  SpmdProgram program = staged_plan(out.program, group.program, positions, even_cuts(problem, stages));
  const Problem priced(analysis, out.cluster, program.mesh);
  if (again) program = with_all_recomputed(priced, program, group_size);
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
  for (const auto& [stages, group_size, again] :
       std::vector<std::tuple<std::vector<int>, int, bool>>{{{0, 1}, 1, false},
                                                            {{0, 1, 2}, 1, false},
                                                            {{0, 1, 2}, 1, true},
                                                            {{0, 1, 0}, 1, false},
                                                            {{0, 1, 0, 1}, 1, false},
                                                            {{0, 1, 0, 1}, 1, true},
                                                            {{0, 1}, 2, false},
                                                            {{0, 1}, 4, true}}) {
    const Pipelined at = pipelined(traced.program, turns, stages, group_size, again);
    const std::string what =
        ::testing::PrintToString(stages) + " of " + std::to_string(group_size) + (again ? ", values made again" : "");
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

class MadeAgainInStages : public ::testing::TestWithParam<ListedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, MadeAgainInStages, ::testing::ValuesIn(models_with_turns()),
                         [](const auto& info) { return test_name(info.param.name); });

/// What is hard to check would be refuted, or come to no end, as logits of BERT do that are made again
/// (docs/limits.md).
TEST_P(MadeAgainInStages, PassesTheCheckOfSource) {
  const TracedModel traced = trace_model(GetParam(), GetParam().tiny);
  const int64_t turns = possible_turns(traced.program).back();
  const Pipelined at = pipelined(traced.program, turns, {0, 1}, 1, true);
  for (int rank = 0; rank < 2; ++rank) {
    const DeviceProgram device = generate(at.program, at.plan.program, at.cluster, rank);
    SourceOptions options = source_options();
    options.work_in_all = 400'000'000;  // four times as much as a run allows itself
    const SourceCheck found = check_source(at.program, at.plan.program, rank_source(device), options);
    const bool unknown = GetParam().name == "BERT-Base" && found.verdict == Verdict::unknown;
    EXPECT_TRUE(found.verdict == Verdict::proved || unknown)
        << "rank " << rank << ", line " << found.line << ": " << found.summary;
  }
}

/// Of a layer's sum both addends would be sent in place of it, or it in two forms, if it were converted before.
TEST(StagesOfLargeModels, SendOneTensorOverACut) {
  const ListedModel llama = listed_models({"LLaMA 7B"}).front();
  const Program step = take_turns(trace_model(llama, llama.published).program, {64}).program.value();
  const Cluster cluster = load_cluster(cluster_file("v100-p100"));
  const DeviceGroups groups = groups_of(cluster, 8);
  const Cluster one = restricted(cluster, groups.groups[0]);
  const StagePositions positions = stage_positions(step);
  const auto of_axes = [&](int axes) { return std::make_shared<const Analysis>(step, axes); };
  for (const Mesh& mesh : group_meshes(one)) {
    const GroupPlan group = group_plans(of_axes, one, mesh).front();
    const StageProblem problem = stage_problem(group.analysis, cluster, groups, group.program, positions);
    const SpmdProgram staged = staged_plan(step, group.program, positions, even_cuts(problem, {0, 1, 2, 3}));
    int forward = 0;
    for (const Instruction& instruction : staged.instructions) {
      const NodeId node = staged.values[size_t(instruction.result)].node;
      const bool sends = instruction.opcode == Opcode::send && loop_of(step, staged, instruction) == positions.loop;
      forward += sends && element_count(step[node].type.shape) > 1 && !positions.again[size_t(node)];
    }
    EXPECT_EQ(forward, 3) << "over three cuts, axes " << mesh.axes.size();
  }
}

}  // namespace
}  // namespace hetsynth::testing
