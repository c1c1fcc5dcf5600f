// Plans of cpu devices on several hosts, whose collectives go in buckets and beside computing: every model of examples/
// at its tiny size. The text is that of the plan, and takes the memory that was planned.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/interface/device_program.h"
#include "runtime/training/generated_check.h"
#include "synth/baselines/baseline_plans.h"
#include "synth/planner/synthesize.h"
#include "synth/schedule/memory.h"
#include "tests/support/test_name.h"
#include "tests/support/zoo/walk.h"

namespace hetsynth::testing {
namespace {

/// What a handful of scalars in slots of 64 bytes amounts to, and buckets of scalars.
constexpr double small = 4096;

/// Part of an arena: in models of so few tensors the gaps that first fit leaves differ by so much when lives change.
constexpr double close = 0.05;

/// Two on each of two hosts.
Cluster four_on_two_hosts() {
  Cluster four = three_uneven_devices();
  four.devices.push_back(four.devices[1]);
  four.devices.back().name = "fourth";
  four.hosts.push_back(four.hosts[0]);
  four.hosts[1].name = "other";
  four.devices[2].host = four.devices[3].host = 1;
  four.between = {1e9, 5e-5};
  return four;
}

/// Every parameter of two or more dimensions cut in its rows, and so gathered ahead of its readers.
Plan plan_of_cut_parameters(const Program& program, const Cluster& four) {
  SynthesisOptions options;
  options.effort = Effort::quick;
  options.pins.mesh = {4};
  for (const Node& node : program.nodes)
    if (node.kind == NodeKind::parameter && node.type.shape.size() > 1 && node.type.shape[0] >= 4)
      options.pins.placements.push_back({node.name, "sharded(0)"});
  return synthesize(program, four, options);
}

class InBuckets : public ::testing::TestWithParam<ListedModel> {};

INSTANTIATE_TEST_SUITE_P(Models, InBuckets, ::testing::ValuesIn(first_of_each_file()),
                         [](const auto& info) { return test_name(info.param.name); });

TEST_P(InBuckets, TextAndMemoryAreAsPlanned) {
  const TracedModel traced = trace_model(GetParam(), GetParam().tiny);
  const Cluster four = four_on_two_hosts();
  SynthesisOptions options;
  options.effort = Effort::quick;
  options.most_axes = 2;
  for (const Plan& plan : {data_parallel_plan(traced.program, four, RatioRule::proportional),
                           synthesize(traced.program, four, options), plan_of_cut_parameters(traced.program, four)}) {
    EXPECT_TRUE(std::ranges::any_of(plan.program.instructions, [](const Instruction& i) { return i.bucket >= 0; }));
    for (const int rank : {0, 3}) {
      const DeviceProgram device = generate(traced.program, plan.program, four, rank);
      const SourceCheck found = check_source(traced.program, plan.program, rank_source(device), source_options());
      EXPECT_EQ(found.verdict, Verdict::proved) << "rank " << rank << ", line " << found.line << ": " << found.summary;
      // What is under way takes as much more memory as planned.
      SpmdProgram none = plan.program;
      for (Instruction& instruction : none.instructions) instruction.bucket = -1;
      const auto planned = [&](const SpmdProgram& program) {
        return double(memory_at_peak(traced.program, program, four)[size_t(rank)].total());
      };
      const double without = double(generate(traced.program, none, four, rank).arena_bytes);
      EXPECT_EQ(planned(plan.program), double(plan.prediction.devices[size_t(rank)].memory_bytes));
      EXPECT_NEAR(planned(plan.program) - planned(none), double(device.arena_bytes) - without, close * without + small)
          << "rank " << rank;
    }
  }
}

}  // namespace
}  // namespace hetsynth::testing
